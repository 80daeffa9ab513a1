# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Generated scripts with bash as the judge: a few hundred here, 20,000 with PDOPS_EXAMPLES=20000."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Optional

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from .generated import ASKED, script
from .generated_words import NAMES
from .judging import judge_edit, judge_reading
from .oracle import Bash

EXAMPLES = int(os.environ.get("PDOPS_EXAMPLES", "250"))
GENERATED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="PDOPS_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
    phases=(Phase.generate, Phase.shrink),
)


@pytest.fixture(scope="module")
def bash() -> Iterator[Bash]:
    oracle = Bash()
    yield oracle
    oracle.close()


@GENERATED
@given(data=script(), name=st.sampled_from((*NAMES, "SGLANG_NEW", "TT")), value=ASKED)
def test_no_wrong_reading_and_no_wrong_edit(bash: Bash, data: bytes, name: str, value: Optional[str]) -> None:
    reading = judge_reading(data, bash)
    event("bash starts no engine" if reading is None else "not understood" if reading.refusal else "understood")
    event("edit: " + judge_edit(data, name, value, bash))


@settings(GENERATED, max_examples=EXAMPLES)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    from ansible_collections.pdops.sglang.plugins.module_utils.scripts.reading import read_script

    read_script(data)
