# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError


def test_an_error_is_its_sentence_and_carries_data_for_the_result() -> None:
    error = PdopsError("decode.sh is not readable; check its mode.", path="decode.sh")

    assert str(error) == "decode.sh is not readable; check its mode."
    assert error.details == {"path": "decode.sh"}
