# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What serve scripts say of kernels: the package that they select, and the Python that loads it."""

from __future__ import annotations

import os
import re
import shlex
from typing import Optional

from ..pdops_error import PdopsError
from ..scripts.analysis import analyse
from ..scripts.reading import read_script
from ..store.atomic import read_regular
from ..store.backups import MOST_BYTES
from .selection import PATH, selected

_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*\Z")


def selected_by(script: str) -> Optional[str]:
    """What a serve script selects; None also when there is no such script, or only a run tells."""
    try:
        return selected(read_script(read_regular(script, MOST_BYTES)).value(PATH))
    except PdopsError:
        return None


def interpreter_in(script: bytes) -> Optional[str]:
    """The Python that a serve script starts the engine with, as it stands there (a path, or a name like ``python``); None when
    its text does not tell. ``/opt/venv/bin/sglang serve`` has the one beside it.
    """
    analysis = analyse(script.decode("latin-1"))
    if not analysis.starts:
        return None
    text = analysis.text[analysis.starts[-1].offset : analysis.starts[-1].end]
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError:
        return None
    for word in words:
        if _PYTHON.match(word):
            return word
        if os.path.basename(word) == "sglang":
            return os.path.join(os.path.dirname(word), "python")
    return None
