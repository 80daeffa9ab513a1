# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Edits by hand beside the knobs are not overwritten silently."""

from __future__ import annotations

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.managed.fixed_part import lines_by_hand, refuse_lost_lines
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError

from .rendering import rendered

CONFIRMED = rendered("decode", {"SGLANG_A": "1"})
LATER = rendered("decode", {"SGLANG_A": "2"}, pd_arguments={"max-running-requests": 64})
BY_HAND = CONFIRMED.replace(b"--max-running-requests 96", b"--max-running-requests 80")


def test_what_is_no_edit_by_hand() -> None:
    assert lines_by_hand(CONFIRMED, CONFIRMED, LATER) == []
    assert lines_by_hand(CONFIRMED, LATER, LATER) == []
    assert lines_by_hand(None, LATER.replace(b"=2\n", b"=3 # x\n"), LATER) == []


@pytest.mark.parametrize("take", [None, "host", "vars"])
def test_an_argument_that_was_edited_by_hand(take: str | None) -> None:
    if take == "vars":
        refuse_lost_lines("dsv4-decode", CONFIRMED, BY_HAND, LATER, take)
        return
    with pytest.raises(
        PdopsError, match="dsv4-decode was edited since the last confirmed change beside its knobs"
    ) as refused:
        refuse_lost_lines("dsv4-decode", CONFIRMED, BY_HAND, LATER, take)
    assert [(line["sign"], line["text"].strip()) for line in refused.value.details["lines"]] == [
        ("-", "--max-running-requests 96 \\"),
        ("+", "--max-running-requests 80 \\"),
    ]


def test_without_a_record_and_with_a_secret_on_the_machine() -> None:
    adopted = b"#!/bin/bash\nexport HF_TOKEN=hf_geheim\nexec python -m sglang.launch_server --api-key sk-geheim\n"
    with pytest.raises(PdopsError, match="is not what the template gives") as refused:
        refuse_lost_lines("dsv4-decode", None, adopted, LATER, "host")
    said = str(refused.value) + str(refused.value.details)
    assert "geheim" not in said and "take=vars" in said
