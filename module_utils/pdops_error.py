# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The one exception that pdops raises for trouble it expects."""

from __future__ import annotations

from typing import Any

from .plain_text import plain


class PdopsError(Exception):
    """Expected trouble, told in one sentence: what, where, what to do.

    ``details`` is extra data for the caller's result (a module passes it on to
    ``fail_json``); it must hold no secrets.
    """

    def __init__(self, sentence: str, **details: Any) -> None:
        # Words of services and files are in it, and it goes to the operator's terminal.
        super().__init__(plain(sentence))
        self.details: dict[str, Any] = details
