# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Mistakes of an inventory collected, so that all of them are told at once and not one per run."""

from __future__ import annotations

from typing import Any, Callable

from .pdops_error import PdopsError


class Mistakes:
    """What several checks refuse, in their order, each sentence once."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def take(self, step: Callable[[], Any], instead: Any) -> Any:
        """What ``step`` finds; when it refuses, ``instead``, so that the checks after it can go on."""
        try:
            return step()
        except PdopsError as error:
            self.add(*error.details.get("mistakes", [str(error)]))
            return instead

    def add(self, *sentences: str) -> None:
        self.said += [sentence for sentence in sentences if sentence not in self.said]

    def refuse(self) -> None:
        """Raise :class:`PdopsError` when anything was refused; of several mistakes ``details`` has each as ``mistakes``."""
        if len(self.said) == 1:
            raise PdopsError(self.said[0])
        if self.said:
            listed = "".join(f"\n- {sentence}" for sentence in self.said)
            raise PdopsError(
                f"{len(self.said)} mistakes in the inventory, and nothing was touched:{listed}",
                mistakes=list(self.said),
            )
