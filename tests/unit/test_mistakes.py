# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What is wrong with several instances in the same way is one mistake."""

from __future__ import annotations

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.mistakes import Mistakes
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError


def test_the_same_of_several_instances_is_told_once_with_all_names() -> None:
    wrong = Mistakes()
    wrong.add("a: no wheels.", "a: no GPUs.", "b: no wheels.", "ports: a and b share one.", "c: no wheels.")
    wrong.join(["a", "b", "c"])
    with pytest.raises(PdopsError) as refused:
        wrong.refuse()
    assert str(refused.value) == (
        "3 mistakes in the inventory, and nothing was touched:\n- a, b, c: no wheels.\n- a: no GPUs.\n- ports: a and b share one."
    )


def test_one_sentence_of_all_is_no_list() -> None:
    wrong = Mistakes()
    wrong.add("a: no wheels.", "b: no wheels.")
    wrong.join(["a", "b"])
    with pytest.raises(PdopsError, match=r"^a, b: no wheels\.$"):
        wrong.refuse()
