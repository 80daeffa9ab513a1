#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Writes the files of the field's machine below a folder: machine.py FOLDER.

root/: the serve scripts in the story's state; units/: the units that run them; engine.tar: the simulated engine.
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from lab.layout import Layout  # noqa: E402
from lab.simulated import scripts  # noqa: E402

HOME = "/opt/pdops-simulation"  # where the simulated engine and the venv of all three services are on the machine
PORTS = {"prefill": 30000, "decode": 30001, "router": 8000, "metrics": 29000, "bootstrap": 8998}
UNIT = """\
[Unit]
Description=DeepSeek-V4-Flash {role} (a simulated engine, or the real router)
After=network-online.target
StartLimitIntervalSec=120
StartLimitBurst=5

[Service]
Type=simple
WorkingDirectory={home}
Environment=PDOPS_LAB_LOAD_S=0.4 PDOPS_LAB_HEALTH_S=0.2 PDOPS_LAB_FAULTS={home}/faults.json
ExecStart=/bin/bash {script}
KillMode=mixed
TimeoutStopSec=60
Restart=on-failure
RestartSec=1

[Install]
WantedBy=multi-user.target
"""


class Field(Layout):
    """The field's ports, as inventory/example has them."""

    def port(self, what: str) -> int:
        return PORTS[what]


def main() -> None:
    folder = Path(sys.argv[1])
    field = Field(HOME, "", 0, "simulated", "dsv4", 60, f"{HOME}/venv/bin/python")
    for room in ("root", "units"):
        (folder / room).mkdir(parents=True, exist_ok=True)
    for name, text in scripts(field, knob_in_script=False).items():
        (folder / "root" / name).write_text(text)
        (folder / "root" / name).chmod(0o755)
    for member in field.shape.members:
        text = UNIT.format(home=HOME, role=member.role, script=f"/root/{member.script}")
        (folder / "units" / f"{member.unit}.service").write_text(text)
    with tarfile.open(folder / "engine.tar", "w") as archive:
        archive.add(ROOT / "lab", "lab", filter=lambda item: None if "__pycache__" in item.name else item)


if __name__ == "__main__":
    main()
