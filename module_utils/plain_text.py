# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Text of services, logs and files, made fit for a terminal and a page."""

from __future__ import annotations

import re

# Colours and cursor movements of terminals (ECMA-48, also with the one-byte introducer), links and titles (OSC).
_TERMINAL = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]?")
# What moves the cursor, what HTML does not allow, and what turns the reading direction.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text without escape sequences and control characters; tabs and line feeds stay."""
    return _CONTROL.sub("", _TERMINAL.sub("", text))


def one_line(text: str, limit: int) -> str:
    """The text as a part of a sentence: one line of at most ``limit`` characters, without control characters."""
    # A line end of whatever kind parts two words.
    line = " ".join(plain(text.replace("\r", "\n")).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
