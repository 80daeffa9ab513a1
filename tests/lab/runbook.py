# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The commands of a runbook, taken out of its Markdown and run; what they print is compared with what the page shows.

Commands are the lines that begin with ``$ `` in fenced ``console`` blocks; the lines below one, up to the next or the
end of the block, are what it prints. `docs/runbooks/README.md` says the rules to a reader; they are:

* ``…`` in a line is any text, also none; alone on a line it is any lines, also none.
* What differs from run to run is any such thing: seconds (``0.4 s``, also ``6 min 50 s``), times, change ids, short sha256, process numbers
  and ports (``VOLATILE``). Every other character counts. Blank lines and blanks at the end of a line do not.
* Lines of progress (``dsv4-decode  3.0 s: waiting for …``, a gate's and a probe's too: ``PROGRESS``) come when a machine is slow, so none of
  them counts.
* ``^C`` alone on a line: Ctrl-C is typed when what is above it has been printed.
* A command ends with 0, unless ``^C`` ends it or its recap shows a failed host.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ..reaper import bound

ANYTHING = "…"
INTERRUPT = "^C"
#: Each is replaced in an expected line by itself, so that another of the same kind matches.
VOLATILE = (
    r"(?:\d+(?:\.\d+)?(?:, | to ))*(?:\d+ h \d\d min|\d+ min \d\d s|\d+(?:\.\d+)? s)\b",
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    r"\d{8}T\d{6}-[a-z]+-[0-9a-f]{6}",
    r"\d{8}T\d{6}Z",
    r"\b[0-9a-f]{12}\b",
    r"\bprocess \d+",
    r"\bpid \d+",
    r"\bport \d+",
    r"127\.0\.0\.1:\d+",
)
PROGRESS = re.compile(r"  [\w.-]+ +(?:[\w-]+ +)?\d+\.\d s(?:(?: of at most [\d.]+ s)?: |  waiting; last: ).*")
_TOKEN = re.compile("|".join(f"({kind})" for kind in (re.escape(ANYTHING), *VOLATILE)))


@dataclass(frozen=True)
class Command:
    """``line`` counts from 1 in the page."""

    line: int
    text: str
    expected: tuple[str, ...]

    @property
    def interrupted(self) -> bool:
        return INTERRUPT in self.expected

    @property
    def fails(self) -> bool:
        return self.interrupted or any(re.search(r"\bfailed=[1-9]", line) for line in self.expected)


def commands(page: str) -> list[Command]:
    """All commands of a page, in its order."""
    found: list[Command] = []
    fence = ""
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```"):
            fence = "" if fence else line[3:].strip() or "text"
        elif fence == "console" and line.startswith("$ "):
            found.append(Command(number, line[2:].strip(), ()))
        elif fence == "console":
            assert found, f"line {number}: a console block begins with a command"
            found[-1] = Command(found[-1].line, found[-1].text, (*found[-1].expected, line))
    return found


def _pattern(line: str) -> re.Pattern[str]:
    parts, end = [], 0
    for token in _TOKEN.finditer(line):
        kind = (".*", *VOLATILE)[(token.lastindex or 1) - 1]
        parts += [re.escape(line[end : token.start()]), kind]
        end = token.end()
    return re.compile("".join(parts) + re.escape(line[end:]))


def difference(expected: Sequence[str], output: str) -> str:
    """Which expected line the output lacks; '' when it has all of them in order, and nothing that the page does not allow."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip() and not PROGRESS.match(line)]
    runs: list[list[str]] = [[]]
    for line in expected:
        if line.strip() == ANYTHING:
            runs.append([])
        elif line.strip() and line != INTERRUPT:
            runs[-1].append(line.rstrip())
    at = 0
    for number, run in enumerate(runs):
        patterns = [_pattern(line) for line in run]
        places = range(at, len(lines) - len(run) + 1)
        if number == 0:
            places = places[:1]
        if number == len(runs) - 1:
            places = [place for place in places if place + len(run) == len(lines)]
        found = [place for place in places if all(map(re.Pattern.fullmatch, patterns, lines[place:]))]
        if not found:
            return _told(run, lines[at:], lines)
        at = found[0] + len(run)
    return ""


def _told(run: list[str], rest: list[str], lines: list[str]) -> str:
    missing = next((line for line in run if not any(_pattern(line).fullmatch(seen) for seen in rest)), None)
    if missing is not None:
        near = get_close_matches(missing, lines, n=2, cutoff=0.5) or ["(none)"]
        said = "\n  ".join(["no line is as on the page:", missing, "nearest:", *near])
    else:
        said = "\n  ".join(["more is printed than the page shows, beside or between these lines:", *run])
    return "\n".join(["what was printed:", *lines, said])


def _interrupt(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGINT)


def run(command: Command, folder: Path, environment: Mapping[str, str], timeout_s: float = 600) -> tuple[int, str]:
    """Exit code, and output with errors, of a command typed in ``folder``."""
    process = subprocess.Popen(
        # A shell's background job, as CI's make test may be, hands on SIGINT ignored; a terminal does not.
        ["env", "--default-signal=INT", "bash", "-c", command.text],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    bound(process)
    timer = threading.Timer(timeout_s, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    text, typed = "", not command.interrupted
    again: list[threading.Timer] = []
    before = command.expected[: command.expected.index(INTERRUPT)] if command.interrupted else ()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            text += line
            if not typed and not difference((*before, ANYTHING), text):
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all that runs in front
                typed = True
                # Ansible may miss one that comes while it forks a worker; a person types it again, and that one ends it silently
                # (its handler of the first puts the default back), so no page may count on a last word.
                again = [threading.Timer(after_s, _interrupt, (process.pid,)) for after_s in (4, 8)]
                for each in again:
                    each.start()
        return process.wait(), text
    finally:
        for each in (timer, *again):
            each.cancel()
        process.stdout.close()


def try_page(path: Path, folder: Path, environment: Mapping[str, str]) -> None:
    """Type all commands of a page in its order; AssertionError when one ends or prints otherwise than the page shows."""
    for command in commands(path.read_text(encoding="utf-8")):
        rc, text = run(command, folder, environment)
        where = f"{path.name}:{command.line}: $ {command.text}"
        assert (rc != 0) == command.fails, f"{where}\nended with {rc}:\n{text}"
        differs = difference(command.expected, text)
        assert not differs, f"{where}\n{differs}"
