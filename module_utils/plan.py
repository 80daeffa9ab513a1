# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a verb does to a deployment, as it was decided."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Plan:
    """What will be done. ``edits`` are the chosen edits of :mod:`.observe`; ``restart`` is in start order.

    ``expect`` is what gate ``effective`` asks of each instance: knob to value, None for "must not be set";
    an instance that is not in it is compared with its own script.
    ``found`` are sentences about what earlier runs left; ``nothing`` says why nothing is to be done.
    ``rule`` says why it is this scope.
    ``finishes`` is the interrupted change that is carried through: its id, verb, and why it was wanted.
    With ``overlap`` decode starts when prefill's bootstrap port answers.
    """

    deployment: str
    verb: str
    summary: str
    edits: tuple[dict[str, Any], ...] = ()
    restart: tuple[str, ...] = ()
    scope: str = "none"
    why: dict[str, str] = field(default_factory=dict)
    expect: dict[str, dict[str, str | None]] = field(default_factory=dict)
    found: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    take_over: str | None = None
    nothing: str | None = None
    overlap: bool = False
    rule: str = ""
    finishes: dict[str, Any] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return bool(self.edits or self.restart or (self.verb == "recover" and self.take_over))

    def as_dict(self) -> dict[str, Any]:
        data = asdict(self)
        for key in ("edits", "restart", "found", "warnings"):
            data[key] = list(data[key])
        return {**data, "changed": self.changed}
