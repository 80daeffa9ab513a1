#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How long it takes to read and to edit a serve script of 3,000 lines, in process.

Run from the repo's root: ``python3 bench/bench_scripts.py``.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from functools import partial
from typing import Callable

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "collections"))

from ansible_collections.pdops.sglang.plugins.module_utils.knob_edit import EditRequest, plan_edit
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.analysis import analyse
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.editing import set_knob, unset_knob
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.reading import read_script
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

LINES = 3000


def long_script(lines: int) -> bytes:
    """As people write them, only longer: comments, exports, helpers, conditions, functions, one exec."""
    block = """
# --- part {n}: what was tuned and why, in a sentence or two
export SGLANG_PART_{n}_CTAS=512   # A/B: +12.8%
export SGLANG_PART_{n}_PATH="/var/cache/sglang/part-{n}" SGLANG_PART_{n}_MODE=auto
HOST_{n}="${{HOST:-0.0.0.0}}"
#export SGLANG_PART_{n}_OLD=256
if [ -n "${{DEBUG:-}}" ]; then
    export SGLANG_PART_{n}_LOG=debug
    echo "debug is on for part {n}: $HOST_{n}"
fi
for device in 0 1 2 3; do
    devices_{n}+=("mlx5_$device:1")
done
log_{n}() {{
    local now
    now=$(date +%s)
    printf '%s %s\\n' "$now" "$*" >> /dev/null
}}
export SGLANG_PART_{n}_JSON='{{"threads": "4", "part": {n}}}'
""".strip("\n")
    text = "#!/bin/bash\nset -euo pipefail\n"
    number = 0
    while text.count("\n") < lines - 6:
        text += block.format(n=number) + "\n"
        number += 1
    return (text + "exec python3 -m sglang.launch_server \\\n  --port 30001 \\\n  --tp-size 4\n").encode()


def plain_script(lines: int) -> bytes:
    """Mostly exports and comments, as a block of knobs that has grown."""
    text = "#!/bin/bash\nset -euo pipefail\n"
    for number in range((lines - 6) // 3):
        text += f"# why knob {number} is what it is\nexport SGLANG_KNOB_{number}=512   # A/B: +12.8%\n"
        text += f'PORT_{number}="${{PORT:-30000}}"\n'
    return (text + "exec python3 -m sglang.launch_server \\\n  --port 30001 \\\n  --tp-size 4\n").encode()


def calibration() -> int:
    """A fixed piece of plain Python, so that figures of different machines can be compared."""
    total = 0
    for number in range(300_000):
        total += number * number % 7
    return total


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds on the clock and of this thread's processor time, with nothing remembered from before."""
    analyse.cache_clear()
    read_script.cache_clear()
    clock, processor = time.perf_counter(), time.thread_time()
    run()
    return (time.perf_counter() - clock) * 1000, (time.thread_time() - processor) * 1000


def measured(what: str, run: Callable[[], object]) -> None:
    """Each run beside one of the calibration: what else the machine does slows both down."""
    pairs = [(timed(run), timed(calibration)) for _ in range(15)]
    clock = statistics.median(one[0] for one, _ in pairs)
    processor = statistics.median(one[1] for one, _ in pairs)
    least = min(one[1] for one, _ in pairs)
    ratio = statistics.median(one[1] / beside[1] for one, beside in pairs)
    print(
        f"{what:28} median {clock:6.1f} ms   processor {processor:6.1f} ms (least {least:.1f})   {ratio:5.2f} calibrations"
    )


def planned(script: bytes, name: str) -> None:
    """The whole plan of an edit, as the module makes it: reading, editing, comparing, masking, ``bash -n``."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "serve.sh")
        with open(path, "wb") as file:
            file.write(script)
        plan_edit(EditRequest(path=path, knobs={name: "1024"}), Store(os.path.join(folder, "state")))


def main() -> None:
    print(f"a calibration is {statistics.median(timed(calibration)[1] for _ in range(15)):.1f} ms of processor time")
    for kind, script, name in (
        ("knobs, comments and helpers", plain_script(LINES), "SGLANG_KNOB_70"),
        ("conditions, loops and functions", long_script(LINES), "SGLANG_PART_70_CTAS"),
    ):
        print(f"{len(script.splitlines())} lines of {kind}, read for the first time:")
        measured("  read", partial(read_script, script))
        measured("  set a knob", partial(set_knob, script, name, "1024"))
        measured("  add a knob", partial(set_knob, script, name + "_NEW", "1"))
        measured("  unset a knob", partial(unset_knob, script, name))
        measured("  plan the whole edit", partial(planned, script, name))


if __name__ == "__main__":
    main()
