# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""python -m lab up | down | status | fault | ask | agent | orphan | logs | env, each with --dir FOLDER (default: .lab)."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence

from . import agent, faults, looking, orphan, simulated
from .layout import Layout
from .runner import ROOT, Lab, LabError, ask, check_folder, down, read_lab, say, up

DEFAULT_DIR = os.environ.get("PDOPS_LAB_DIR") or str(ROOT / ".lab")
_ROLES = ("prefill", "decode", "router", "proxy")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 600:
        raise argparse.ArgumentTypeError(f"a number of seconds from 0 to 600, not {text!r}")
    return value


def _from_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1, not {text!r}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab", description="The embedded deployment: simulated engines behind the real router."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)

    def verb(name: str, words: str, more: str = "") -> argparse.ArgumentParser:
        form = argparse.RawDescriptionHelpFormatter
        made = verbs.add_parser(name, help=words, description=words + more, formatter_class=form)
        made.add_argument(
            "--dir", default=DEFAULT_DIR, metavar="FOLDER", help="folder of the lab (default: .lab, or PDOPS_LAB_DIR)"
        )
        return made

    made = verb("up", "start a lab, or what is down of one; scripts and state that are there are kept")
    made.add_argument("--fresh", action="store_true", help="anew: new scripts, empty state")
    made.add_argument(
        "--story",
        action="store_true",
        help="anew, with the knob reverted: it is only in a backup beside the decode's script",
    )
    made.add_argument("--load-time-s", type=_seconds, default=2.0, help="how long an engine loads (default: 2)")
    made.add_argument(
        "--health-time-s",
        type=_seconds,
        default=1.0,
        help="how long /health takes at least (default: 1, as the real one)",
    )
    verb("down", "end everything that was started for this folder; scripts and state stay for the next up")
    verb("status", "what runs")
    made = verb(
        "fault",
        "switch faults on or off, or show which are on",
        ":\n\n" + "\n".join(f"  {name:<22}{words}" for name, words in sorted(faults.FAULTS.items())),
    )
    made.add_argument("words", nargs="*", metavar="NAME[=VALUE]", help="one or more faults")
    made.add_argument(
        "--role", choices=["prefill", "decode", "proxy"], help="whose (default: decode; wedge_after: proxy)"
    )
    made.add_argument("--clear", action="store_true", help="switch those named off; all when none is named")
    made = verb("ask", "one request through the router")
    made.add_argument("text", nargs="?", default="hello")
    made = verb("agent", "a small agent client: rounds of one growing conversation")
    made.add_argument("--rounds", type=_from_one, default=24)
    made.add_argument("--through", choices=["proxy", "router"], default="proxy")
    made.add_argument("--timeout-s", type=_seconds, default=10.0, help="how long to wait for an answer")
    made = verb("orphan", "a process that belongs to no unit takes the port of an instance that is down")
    made.add_argument("role", choices=_ROLES[:3])
    made = verb("logs", "the end of a log")
    made.add_argument("role", choices=_ROLES)
    made.add_argument("-n", type=_from_one, default=40, metavar="LINES", help="how many lines (default: 40)")
    made = verb("env", "the SGLANG, UCX and CUDA names that the running main process was started with")
    made.add_argument("role", choices=_ROLES)
    return parser


def _up(given: argparse.Namespace) -> None:
    def make(folder: str, short: str, first_port: int) -> Layout:
        settings = {
            "PYTHONPATH": str(ROOT),
            "PDOPS_LAB_DIR": folder,
            "PDOPS_LAB_FAULTS": os.path.join(folder, "faults.json"),
            "PDOPS_LAB_LOAD_S": str(given.load_time_s),
            "PDOPS_LAB_HEALTH_S": str(given.health_time_s),
        }
        return Layout(
            folder, short, first_port, "simulated", "deepseek-v4-flash-simulation", 30, sys.executable, settings
        )

    up(
        given.dir,
        make,
        lambda layout: simulated.scripts(layout, knob_in_script=not given.story),
        with_proxy=True,
        fresh=given.story or given.fresh,
    )


def _ask(lab: Lab, text: str) -> int:
    status, body = ask(lab, text)
    try:
        answer = json.loads(body)["choices"][0]
        said = f"{answer['message']['content']!r} ({answer['finish_reason']})"
    except (ValueError, KeyError, IndexError, TypeError):
        say(f"the router answered {status or 'nothing'}: {body[:300].decode(errors='replace')}")
        return 1
    say(f"the router answered {status}: {said}")
    return 0 if status == 200 else 1


def _said(sentence: str) -> int:
    say(sentence)
    return 0


#: Verbs that need a lab that is up. They return the exit code.
_WITH_LAB: dict[str, Callable[[Lab, argparse.Namespace], int]] = {
    "status": lambda lab, _: looking.status(lab),
    "fault": lambda lab, given: _said(faults.switch(lab, given.role, given.words, given.clear)),
    "ask": lambda lab, given: _ask(lab, given.text),
    "agent": lambda lab, given: agent.run(lab, given.rounds, given.through, given.timeout_s),
    "orphan": lambda lab, given: _said(orphan.start(lab, given.role)),
    "logs": lambda lab, given: looking.logs(lab, given.role, given.n),
    "env": lambda lab, given: looking.env(lab, given.role),
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    # So that an `up` that is told to end takes down what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        check_folder(os.path.realpath(given.dir))
        if given.verb == "up":
            _up(given)
        elif given.verb == "down":
            down(given.dir)
        else:
            return _WITH_LAB[given.verb](read_lab(given.dir), given)
    except (LabError, OSError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
