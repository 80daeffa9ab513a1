# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Where reports lie, and how they get there: whole or not at all."""

from __future__ import annotations

import os
import re
from typing import Any

from ..pdops_error import PdopsError
from ..store.atomic import why, write_private
from . import clean, wording
from .story import read_story

LATEST = "latest.html"


def report_name(given: Any) -> str:
    """`20261129T200613Z-restore-<change id>.html`; sorts by time, and holds only letters, digits, dots and dashes."""
    story = read_story(given)
    began = wording.utc(story.began, "%Y%m%dT%H%M%SZ")
    parts = [began, story.verb, story.change_id or story.outcome]
    name = "-".join(re.sub(r"[^A-Za-z0-9._-]+", "-", clean.text(part, 120)).strip("-.") for part in parts if part)
    return f"{name or 'report'}.html"


def write_report(folder: str, page: str, given: Any) -> tuple[str, str]:
    """Write the page under its name and as ``latest.html``, both atomically; return the two paths.

    Reports are for a team and hold no secrets, so they are readable as the umask says. Raises
    :class:`PdopsError` with the reason.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise PdopsError(f"{folder} could not be made: {why(error)}.") from None
    path, latest = os.path.join(folder, report_name(given)), os.path.join(folder, LATEST)
    content = page.encode("utf-8")
    write_private(path, content, mode=0o644)
    write_private(latest, content, mode=0o644)
    return path, latest
