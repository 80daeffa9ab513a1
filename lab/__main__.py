# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""python -m lab up | down | status | fault | ask | agent | orphan | logs | env | cut, each with --dir FOLDER (default: .lab)."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence

from . import agent, faults, looking, orphan, simulated
from .layout import Layout
from .ports import SIZE
from .runner import ROOT, Lab, LabError, ask, check_folder, down, read_lab, read_mark, say, up
from .shape import Shape

DEFAULT_DIR = os.environ.get("PDOPS_LAB_DIR") or str(ROOT / ".lab")


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
    made.add_argument("--fresh", action="store_true", help="anew: new scripts, empty state, whatever lab was there")
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
    made.add_argument("--prefills", type=_from_one, metavar="N", help="how many (default: 1)")
    made.add_argument("--decodes", type=_from_one, metavar="N", help="how many (default: 1)")
    made.add_argument(
        "--machines", type=_from_one, metavar="N", help="machines to play, each with a store of its own (default: 1)"
    )
    made.add_argument("--name", metavar="NAME", help="of the deployment (default: lab)")
    made.add_argument(
        "--light", action="store_true", help="one process per simulated engine rank group, for many labs at once"
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
        "--role",
        help="whose: prefill, decode, proxy, or one of several such as decode-2 (default: decode; wedge_after: proxy)",
    )
    made.add_argument("--clear", action="store_true", help="switch those named off; all when none is named")
    made = verb("ask", "one request through the router")
    made.add_argument("text", nargs="?", default="hello")
    made = verb("agent", "a small agent client: rounds of one growing conversation")
    made.add_argument("--rounds", type=_from_one, default=24)
    made.add_argument("--through", choices=["proxy", "router"], default="proxy")
    made.add_argument("--timeout-s", type=_seconds, default=10.0, help="how long to wait for an answer")
    made = verb("orphan", "a process that belongs to no unit takes the port of an instance that is down")
    made.add_argument("role", help="prefill, decode, router, or one of several such as decode-2")
    made = verb("logs", "the end of a log")
    made.add_argument("role", help="prefill, decode, router, proxy, or one of several such as decode-2")
    made.add_argument("-n", type=_from_one, default=40, metavar="LINES", help="how many lines (default: 40)")
    made = verb("env", "the SGLANG, UCX and CUDA names that the running main process was started with")
    made.add_argument("role", help="prefill, decode, router, proxy, or one of several such as decode-2")
    made = verb("cut", "cut machines off from the controller, or show which are; what runs on them goes on")
    made.add_argument("machines", nargs="*", metavar="MACHINE")
    made.add_argument("--mend", action="store_true", help="those named are reached again; all when none is named")
    return parser


def _shape(given: argparse.Namespace) -> Shape:
    """What was asked for; what was not, as the lab has it that is here already."""
    mark = None if given.fresh or given.story else read_mark(os.path.realpath(given.dir))
    asked = {"prefills": given.prefills, "decodes": given.decodes, "machines": given.machines, "name": given.name}
    asked["tensor_parallel"] = 1 if given.light else None
    shape = Shape(**{**(mark or {}).get("shape", {}), **{key: value for key, value in asked.items() if value}})
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", shape.name):
        raise LabError(f"--name is {shape.name!r}: take small letters, digits and dashes, a letter first")
    if len(shape.ports) > SIZE:
        raise LabError(f"{len(shape.ports)} ports are needed and a lab has {SIZE}: take fewer instances")
    if shape.machines > len(shape.members):
        raise LabError(f"{shape.machines} machines for {len(shape.members)} instances: take fewer")
    return shape


def _refuse_to_replace(folder: str, shape: Shape) -> None:
    """Another lab's scripts, state and evidence go only when that is said; nor is another lab than was asked for taken for it."""
    mark = read_mark(folder)
    there = Shape(**mark["shape"]) if mark is not None and "shape" in mark else shape
    members, asked = there.members, shape.members
    if [(one.name, one.machine) for one in members] != [(one.name, one.machine) for one in asked]:
        raise LabError(
            f"{folder} holds another lab ({', '.join(one.name for one in members)}): --fresh replaces it with all of its scripts, "
            "state and evidence, --dir (or PDOPS_LAB_DIR) names another folder"
        )


def _up(given: argparse.Namespace) -> None:
    shape = _shape(given)
    if not given.fresh:
        _refuse_to_replace(os.path.realpath(given.dir), shape)

    def make(folder: str, short: str, first_port: int) -> Layout:
        settings = {
            "PYTHONPATH": str(ROOT),
            "PDOPS_LAB_DIR": folder,
            "PDOPS_LAB_FAULTS": os.path.join(folder, "faults.json"),
            "PDOPS_LAB_LOAD_S": str(given.load_time_s),
            "PDOPS_LAB_HEALTH_S": str(given.health_time_s),
        }
        return Layout(
            folder, short, first_port, "simulated", "deepseek-v4-flash-simulation", 30, sys.executable, settings, shape
        )

    up(
        given.dir,
        make,
        lambda layout: simulated.scripts(layout, knob_in_script=not given.story),
        with_proxy=True,
        fresh=given.story or given.fresh,
    )
    if not shape.usual or shape.name != "lab":
        say(f"its inventory: -i {os.path.realpath(given.dir)}/inventory.json")


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
    "cut": lambda lab, given: _said(looking.cut(lab, given.machines, given.mend)),
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
