#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How long it takes to read and to fold a record of 10,000 entries, in process.

Run from the repo's root: ``python3 bench/bench_record.py [ENTRIES]``.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "collections"))

from ansible_collections.pdops.sglang.plugins.module_utils.record import folder
from ansible_collections.pdops.sglang.plugins.module_utils.record.fold import fold

ENTRIES = 10_000
ROUNDS = 5
KNOBS = 40


def made_up(count: int) -> list[dict[str, object]]:
    """Entries as a team makes them in some years: each knob is set, measured, now and then suspected, reverted and cleared."""
    prints = [
        {"engine": f"sglang 0.5.{20 + at}", "driver": "580.82", "decode arguments": "--tp-size 4 " * 12}
        for at in range(4)
    ]
    deployed: dict[str, str | None] = {}
    entries: list[dict[str, object]] = []
    while len(entries) < count:
        at = len(entries)
        knob = f"SGLANG_PART_{at % KNOBS}_CTAS"
        value: str | None = str(64 * (1 + at // KNOBS % 16))
        base: dict[str, object] = {
            "v": 1,
            "at": folder.moment(1_700_000_000 + at * 600),
            "deployment": "bench",
            "by": "someone on ops1",
            "knob": knob,
            "fingerprint": prints[at * len(prints) // count],
        }
        step = at // KNOBS % 6
        changed = {"instance": "bench-decode", "before": deployed.get(knob)}
        if step == 0:
            entries.append({**base, "kind": "apply", **changed, "after": value})
            deployed[knob] = value
        elif step in (1, 2):
            interval = {"low_pct": 1.5, "high_pct": 9.5, "pairs": 4}
            entries.append(
                {
                    **base,
                    "kind": "measure",
                    "value": deployed.get(knob),
                    "load": f"C{32 * step}",
                    "effect_pct": 5.7,
                    **interval,
                }
            )
        elif step == 3:
            text = {"reason": "suspicion", "suspicion": True, "review_by": "2026-12-13"}
            entries.append({**base, "kind": "revert", **changed, "after": None, **text})
            deployed[knob] = None
        elif step == 4:
            entries.append({**base, "kind": "exonerate", "cause": "proxy"})
        else:
            entries.append({**base, "kind": "restore", **changed, "after": value})
            deployed[knob] = value
    return entries


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ENTRIES
    with tempfile.TemporaryDirectory(prefix="pdops-bench-") as top:
        os.mkdir(os.path.join(top, "bench"))
        for entry in made_up(count):
            content = folder.render(entry)
            with open(os.path.join(top, "bench", folder.file_name(entry, folder.id_of(content))), "wb") as target:
                target.write(content)
        times = []
        for _ in range(ROUNDS):
            begin, busy = time.perf_counter(), time.process_time()
            reading = folder.read(top, "bench")
            read_s = time.perf_counter() - begin
            folded = fold(reading.entries)
            times.append((time.perf_counter() - begin, read_s, time.process_time() - busy))
        assert len(reading.entries) == count and not reading.problems
    whole, read, busy_s = (statistics.median(column) for column in zip(*times))
    took = f"read in {read:.2f} s and folded in {whole - read:.2f} s"
    print(
        f"record: {count} entries of {len(folded.knobs)} knobs {took}, together {whole:.2f} s ({busy_s:.2f} s of processor time)"
    )


if __name__ == "__main__":
    main()
