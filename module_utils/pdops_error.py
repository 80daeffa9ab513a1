# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The one exception that pdops raises for trouble it expects."""

from __future__ import annotations

from typing import Any


class PdopsError(Exception):
    """Expected trouble, told in one sentence: what, where, what to do.

    ``details`` is extra data for the caller's result (a module passes it on to
    ``fail_json``); it must hold no secrets.
    """

    def __init__(self, sentence: str, **details: Any) -> None:
        super().__init__(sentence)
        self.details: dict[str, Any] = details
