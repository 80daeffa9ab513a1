# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""python -m lab up | down | status | fault | ask | agent | orphan, each with --dir FOLDER (default: .lab)."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence

from . import agent, faults, simulated
from .layout import Layout
from .runner import ROOT, Lab, LabError, ask, down, get, is_up, read_lab, read_mark, rpc, say, up

DEFAULT_DIR = os.environ.get("PDOPS_LAB_DIR") or str(ROOT / ".lab")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 600:
        raise argparse.ArgumentTypeError("must be between 0 and 600 seconds")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab", description="The embedded deployment: simulated engines behind the real router."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)

    def verb(name: str, words: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=words, description=words)
        made.add_argument(
            "--dir", default=DEFAULT_DIR, metavar="FOLDER", help="folder of the lab (default: .lab, or PDOPS_LAB_DIR)"
        )
        return made

    made = verb("up", "start a lab; one that is up already is left as it is, unless --story asks for a fresh one")
    made.add_argument(
        "--story",
        action="store_true",
        help="fresh, with the knob reverted: it is only in a backup beside the decode's script",
    )
    made.add_argument("--load-time-s", type=_seconds, default=2.0, help="how long an engine loads (default: 2)")
    made.add_argument(
        "--health-time-s",
        type=_seconds,
        default=1.0,
        help="how long /health takes at least (default: 1, as the real one)",
    )
    verb("down", "end everything that was started for this folder")
    verb("status", "what runs")
    made = verb("fault", "switch faults; see python -m lab fault --help")
    made.add_argument(
        "name",
        nargs="?",
        choices=sorted(faults.FAULTS),
        help="; ".join(f"{k}: {v}" for k, v in sorted(faults.FAULTS.items())),
    )
    made.add_argument("value", nargs="?", help="NAME=VALUE, a number, or nothing, as the fault needs it")
    made.add_argument("--role", choices=["prefill", "decode", "proxy"], default="decode")
    made.add_argument("--clear", action="store_true", help="switch all faults off")
    made = verb("ask", "one request through the router")
    made.add_argument("text", nargs="?", default="hello")
    made = verb("agent", "a small agent client: rounds of one growing conversation")
    made.add_argument("--rounds", type=int, default=24)
    made.add_argument("--through", choices=["proxy", "router"], default="proxy")
    made.add_argument("--timeout-s", type=_seconds, default=10.0, help="how long to wait for an answer")
    made = verb("orphan", "a process that belongs to no unit takes the port of an instance that is down")
    made.add_argument("role", choices=["prefill", "decode", "router"])
    return parser


def _up(given: argparse.Namespace) -> None:
    mark = read_mark(os.path.realpath(given.dir))
    if mark is not None and is_up(mark) and not given.story:
        lab = read_lab(given.dir)
        say(f"is up already in {lab['dir']}, at {lab['instances']['lab-router']['url']}")
        return

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

    up(given.dir, make, lambda layout: simulated.scripts(layout, knob_in_script=not given.story), with_proxy=True)


def _status(lab: Lab) -> int:
    bad = 0
    for name, instance in [*lab["instances"].items(), ("agent-proxy", lab["proxy"])]:
        found = rpc(lab).supervisor.getProcessInfo(instance["unit"])
        assert isinstance(found, dict)
        path = {"router": "/readiness"}.get(
            str(instance.get("role")), "/health" if "role" in instance else "/_proxy/status"
        )
        status = get(str(instance["url"]) + path, 25.0)[0]
        bad += status != 200
        print(
            f"  {name:<12} {found['statename']:<9} pid {found['pid']:<8} {instance['url']}{path} {status or 'no answer'}"
        )
    say(f"{lab['dir']}: " + ("all serve" if not bad else f"{bad} do not serve"))
    return 1 if bad else 0


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


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    # So that an `up` that is told to end takes down what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if given.verb == "up":
            _up(given)
        elif given.verb == "down":
            down(given.dir)
        elif given.verb == "status":
            return _status(read_lab(given.dir))
        elif given.verb == "fault":
            say(faults.switch(read_lab(given.dir), given.role, given.name, given.value, given.clear))
        elif given.verb == "ask":
            return _ask(read_lab(given.dir), given.text)
        elif given.verb == "agent":
            return agent.run(read_lab(given.dir), given.rounds, given.through, given.timeout_s)
        else:
            say(faults.orphan(read_lab(given.dir), given.role))
    except (LabError, ConnectionError, FileNotFoundError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
