# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Entries that git knows and the folder lacks: what nothing refers to, and no machine did, is missed by nobody else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from typing import Optional

from .folder import is_entry_name

_GIT_S = 30.0


def gone(folder: str, present: Iterable[str]) -> list[str]:
    """A sentence for each entry that a commit before HEAD's had added, and that is not ``present`` (names of files) any more.

    Empty where there is no git, or the folder is in no work tree of it.
    """
    place = os.path.realpath(folder)
    start = place
    while not os.path.isdir(start) and os.path.dirname(start) != start:
        start = os.path.dirname(start)
    top = _git(start, "rev-parse", "--show-toplevel")
    if not top:
        return []
    inside = os.path.relpath(place, os.path.realpath(top.rstrip("\n")))
    # All that were ever added: one that a merge dropped has no commit that deletes it.
    told = _git(
        top.rstrip("\n"),
        "log",
        "--full-history",
        "--no-renames",
        "--diff-filter=A",
        "--format=",
        "--name-only",
        "-z",
        "--",
        inside,
    )
    there = set(present)
    names = {os.path.basename(path) for path in (told or "").split("\0") if os.path.dirname(path) == inside}
    return [
        f"{folder}/{name} is gone, and git has it: bring it back (git log --full-history --all -- '{folder}/{name}'); what is wrong in it "
        "is said with ansible-playbook record.yml -e kind=correct."
        for name in sorted(names - there)
        if is_entry_name(name)
    ]


def _git(place: str, *words: str) -> Optional[str]:
    try:
        done = subprocess.run(
            ["git", "-C", place, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_S,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None
