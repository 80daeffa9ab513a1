# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the agent does first: it takes the guard's place, so that who waits for it waits for no import of the rest.

The rest cannot be missing: the module that starts the agent has imported the same sources with the same interpreter.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable

from ..pdops_error import PdopsError
from .guard_place import sole


def main(arguments: list[str], serve: Callable[[str, str, str], int]) -> int:
    """Exit status of a guard: see :mod:`.guard_unit` for the ones that a unit of systemd knows.

    :param serve: takes verb, state folder and change; called when the place is held, and imports what it needs itself
    """
    parser = argparse.ArgumentParser(prog="pdops-agent")
    parser.add_argument("verb", choices=["guard", "files"])
    parser.add_argument("--state-dir", required=True)
    parser.add_argument("--change", required=True)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with sole(os.path.join(given.state_dir, "changes"), given.change) as alone:
            if not alone:
                return 0
            return serve(given.verb, given.state_dir, given.change)
    except PdopsError as error:
        print(f"guard of change {given.change}: {error}", file=sys.stderr, flush=True)
        return 1
