# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""python -m lab.real up --dir FOLDER | down --dir FOLDER"""

from __future__ import annotations

import argparse
import signal
import sys

from ..runner import LabError, down
from .pair import start


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lab.real", description="The real SGLang pair on CPU behind the real router."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, words in (
        ("up", "write the scripts in the story's state, start all three, wait until they serve"),
        ("down", "end everything that was started for this folder"),
    ):
        verbs.add_parser(verb, help=words).add_argument("--dir", required=True, metavar="FOLDER")
    given = parser.parse_args()
    # So that an `up` that is told to end takes down what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if given.verb == "up":
            start(given.dir)
        else:
            down(given.dir)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
