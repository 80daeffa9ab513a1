# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Looks through the records of changes for what no verb could read; changes nothing."""

from __future__ import annotations

import os
import re

from ..pdops_error import PdopsError
from ..store.atomic import find_leftovers
from ..store.store import Store
from ..store.verify import Problem
from .book import Book

_GUARD = re.compile(r"\.[A-Za-z0-9][A-Za-z0-9._-]{3,79}\.guard")


def verify_records(store: Store) -> list[Problem]:
    """What is wrong below ``changes``, by path. Every verb of a change refuses as long as one record cannot be read."""
    book = Book(store)
    if not os.path.isdir(book.folder):
        return []
    problems: list[Problem] = []
    try:
        listed = sorted(os.listdir(book.folder))
        records = book.names()
    except (PdopsError, OSError) as error:
        return [Problem("unreadable", book.folder, str(error))]
    for name in records:
        try:
            book.load_listed(name)
        except PdopsError as error:
            problems.append(Problem("unreadable", os.path.join(book.folder, f"{name}.json"), str(error)))
    leftovers = find_leftovers(book.folder)
    for name in listed:
        path = os.path.join(book.folder, name)
        ours = (name.endswith(".json") and not name.startswith(".")) or _GUARD.fullmatch(name)
        if not ours and path not in leftovers:
            problems.append(Problem("foreign", path, f"{path} is not of pdops; move it away."))
    return problems
