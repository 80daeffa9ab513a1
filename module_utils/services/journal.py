# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the journal has of a unit: the lines of one run, and how the last run that died ended."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .. import foreign_json
from .base import tidy_lines

#: Of sd-messages.h: "Main process exited, code=..., status=..."
PROCESS_EXIT = "98e322203f7a4ed290d09fe03c09fe15"
FIELDS = "MESSAGE,INVOCATION_ID,_SYSTEMD_INVOCATION_ID,EXIT_CODE,EXIT_STATUS"
STRAYS = 200
LATE_S = 1.0  # what a process wrote last may come in after what systemd said of its end
Entry = Dict[str, Any]


class Journal:
    """:arg ask: runs ``journalctl`` with these arguments; its standard output, empty when it failed."""

    def __init__(self, ask: Callable[[Sequence[str]], bytes]) -> None:
        self._ask = ask

    def of_unit(self, unit: str, lines: int, *more: str) -> List[str]:
        """The last lines of whatever run."""
        text = self._ask(["--no-pager", "-q", "-o", "cat", "-n", str(lines), "-u", unit, *more])
        return tidy_lines(text.decode("utf-8", "replace"), lines)

    def of_run(self, unit: str, run: str, lines: int) -> List[str]:
        """The last lines of one run: what its processes wrote and what systemd said about it.

        :arg run: the InvocationID.

        A line that a process wrote right before its death has lost its invocation when journald looks at it too late
        (4 of 60 on a loaded machine, systemd 257); it is known by its unit and its time.
        """
        own = self._entries(lines, f"_SYSTEMD_INVOCATION_ID={run}", "+", f"INVOCATION_ID={run}")
        if not own:
            return []
        begin_s, end_s = _time_s(own[0]), _time_s(own[-1]) + LATE_S
        beside = self._entries(STRAYS, "-u", unit, "--since", f"@{begin_s:.6f}", "--until", f"@{end_s:.6f}")
        strays = [entry for entry in beside if "INVOCATION_ID" not in entry and "_SYSTEMD_INVOCATION_ID" not in entry]
        entries = sorted([*own, *strays], key=_time_s)
        return tidy_lines("\n".join(_message(entry) for entry in entries), lines)

    def last_death(self, unit: str) -> Tuple[str, Optional[int]]:
        """InvocationID and exit code (minus the signal's number) of the run that died last; "" and None if none did."""
        found = self._entries(1, f"UNIT={_full(unit)}", f"MESSAGE_ID={PROCESS_EXIT}")
        return (str(found[-1].get("INVOCATION_ID", "")), _code(found[-1])) if found else ("", None)

    def exit_of(self, run: str) -> Optional[int]:
        """Exit code of a run."""
        found = self._entries(1, f"INVOCATION_ID={run}", f"MESSAGE_ID={PROCESS_EXIT}")
        return _code(found[-1]) if found else None

    def _entries(self, most: int, *match: str) -> List[Entry]:
        """Oldest first."""
        text = self._ask(
            ["--no-pager", "-q", "--all", "-o", "json", f"--output-fields={FIELDS}", "-n", str(most), *match]
        )
        found = []
        for line in text.decode("utf-8", "replace").splitlines():
            try:
                entry = foreign_json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                found.append(entry)
        return found


def _time_s(entry: Entry) -> float:
    try:
        return int(entry["__REALTIME_TIMESTAMP"]) / 1e6
    except (KeyError, TypeError, ValueError):
        return 0.0


def _message(entry: Entry) -> str:
    """A text with control characters comes as a list of bytes."""
    message = entry.get("MESSAGE")
    if isinstance(message, list):
        return bytes(number for number in message if isinstance(number, int) and 0 <= number < 256).decode(
            "utf-8", "replace"
        )
    return message if isinstance(message, str) else ""


def _code(entry: Entry) -> Optional[int]:
    try:
        status = int(entry["EXIT_STATUS"])
    except (KeyError, TypeError, ValueError):
        return None
    return status if entry.get("EXIT_CODE") == "exited" else -status


def _full(unit: str) -> str:
    """systemctl takes decode for decode.service; fields of the journal hold the whole name."""
    return unit if re.search(r"\.(service|scope|socket|target|timer)\Z", unit) else f"{unit}.service"
