# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Words of a command line in a unit file of systemd."""

from __future__ import annotations


def quoted(word: str) -> str:
    """One word, so that systemd takes it as it is (systemd.service(5), COMMAND LINES)."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def plain_or_quoted(word: str) -> str:
    """As :func:`quoted`, without quotes where none are needed."""
    return word if word and not set(word) - set(_PLAIN) else quoted(word)


_PLAIN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+=:,@"
