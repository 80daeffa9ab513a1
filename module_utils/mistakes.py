# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Mistakes of an inventory, or what a machine has against it, collected, so that all are told at once and not one per run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

from .pdops_error import PdopsError


class Mistakes:
    """What several checks refuse, in their order, each sentence once. ``called`` is what they are, in the plural."""

    def __init__(self, called: str = "mistakes in the inventory") -> None:
        self.called = called
        self.said: list[str] = []
        self.details: dict[str, Any] = {}

    def take(self, step: Callable[[], Any], instead: Any) -> Any:
        """What ``step`` finds; when it refuses, ``instead``, so that the checks after it can go on."""
        try:
            return step()
        except PdopsError as error:
            self.add(*error.details.get("mistakes", [str(error)]))
            self.details = {**error.details, **self.details}
            return instead

    def add(self, *sentences: str) -> None:
        self.said += [sentence for sentence in sentences if sentence not in self.said]

    def join(self, names: Iterable[str]) -> None:
        """Make of the same sentence about several of ``names``, each as ``NAME: sentence``, one with all of them: ``A, B: sentence``."""
        known = set(names)
        about: dict[tuple[bool, str], list[str]] = {}
        for sentence in self.said:
            name, colon, rest = sentence.partition(": ")
            told = (True, rest) if colon and name in known else (False, sentence)
            about.setdefault(told, []).append(name)
        self.said = [f"{', '.join(each)}: {told}" if named else told for (named, told), each in about.items()]

    def refuse(self) -> None:
        """Raise :class:`PdopsError` when anything was refused, with the details of the first; of several each is in ``mistakes``."""
        if len(self.said) == 1:
            raise PdopsError(self.said[0], **self.details)
        if self.said:
            listed = "".join(f"\n- {sentence}" for sentence in self.said)
            raise PdopsError(
                f"{len(self.said)} {self.called}, and nothing was touched:{listed}",
                **{**self.details, "mistakes": list(self.said)},
            )
