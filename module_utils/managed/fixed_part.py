# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The part of a managed script beside its knobs: whether somebody edited it on the machine. Pure.

A template writes that part anew, so an argument that was changed by hand would be gone. Knobs have the three-way
comparison (:mod:`.three_way`); lines have this one.
"""

from __future__ import annotations

from typing import Any, Optional

from ..pdops_error import PdopsError
from ..script_differences import shown_lines, told_lines
from ..scripts.diffing import changed_lines
from .knob_block import fixed_part


def lines_by_hand(confirmed: Optional[bytes], present: bytes, rendered: bytes) -> list[dict[str, Any]]:
    """The lines beside the knobs that are on the machine, but neither confirmed nor rendered; secrets masked.

    Empty when only the template or the variables moved, or when the machine has what they give now.

    :param confirmed: the script of the last confirmed change (the store has it by that change's id); None when there is none,
        and then the script is compared with the rendered one
    :return: ``sign``, ``line`` and ``text`` as in a diff from the confirmed script to the present one
    """
    there = fixed_part(present)
    if there == fixed_part(rendered) or (confirmed is not None and there == fixed_part(confirmed)):
        return []
    before = fixed_part(rendered if confirmed is None else confirmed)
    return shown_lines(before, there, changed_lines(before, there))


def refuse_lost_lines(
    where: str, confirmed: Optional[bytes], present: bytes, rendered: bytes, take: Optional[str]
) -> None:
    """Refuse a rendering that would overwrite an edit beside the knobs, unless ``take`` is ``vars``.

    ``take=host`` cannot keep such lines, as the template writes them.

    :raises PdopsError: with the lines in ``lines`` of its details
    """
    lines = lines_by_hand(confirmed, present, rendered)
    if not lines or take == "vars":
        return
    since = "is not what the template gives" if confirmed is None else "was edited since the last confirmed change"
    raise PdopsError(
        f"{where} {since} beside its knobs: {told_lines(lines)}. Write that into the template or the variables (take=host keeps knobs only), "
        "or overwrite it with take=vars.",
        lines=lines,
    )
