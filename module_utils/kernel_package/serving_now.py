# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which kernels an instance has by its script, and which serve by the plugin's records; for ``status.yml``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Optional

from .selection import selected, version_of
from .status_record import read_records

#: What tells most comes first: a record of a process that gave up, then one that serves.
_FIRST = {"failed": 0, "stock": 0, "ended": 0, "serving": 1, "hooked": 2, "loading": 3}


def kernels_of(python_path: Optional[str], status: Optional[str], pids: Iterable[int]) -> Optional[dict[str, Any]]:
    """None where the script selects no package; else ``folder``, ``version``, ``there``, ``records`` and ``said``.

    :param status: the folder of the records, as the script exports it
    """
    folder = selected(python_path)
    if folder is None:
        return None
    found: dict[str, Any] = {
        "folder": folder,
        "version": version_of(folder),
        "there": os.path.isdir(folder),
        "records": [],
    }
    if not found["there"]:
        return {
            **found,
            "said": f"{folder} is not there, so the stock kernel serves after the next start: deploy_kernels.yml",
        }
    if not status:
        return {**found, "said": f"{found['version']} is selected, and nothing tells which kernel serves"}
    try:
        records = list(read_records(status, pids).values())
    except PermissionError:
        return {**found, "said": f"{found['version']} is selected; {status} cannot be looked into"}
    records.sort(key=lambda record: (_FIRST.get(record.state, 9), record.pid))
    found["records"] = [record.as_dict() for record in records]
    if not records:
        return {**found, "said": f"{found['version']} is selected; no process wrote a record: the stock kernel serves"}
    first = records[0]
    said = first.told() + (f": {first.error}" if first.error else "")
    if first.package != found["version"]:
        said += f"; the script selects {found['version']}, from the next start on"
    return {**found, "said": said}
