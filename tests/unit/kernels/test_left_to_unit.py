# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a script sets no more, and the unit still does, is what the process has: found by a rollback of kernels in the lab."""

from __future__ import annotations

from typing import Any

import pytest

from module_utils import left_to_unit
from module_utils.deployment import Instance

DECODE = Instance("decode", "decode", "u", "/root/d.sh", "http://127.0.0.1:1", "m")


class Environment:
    values = {"PYTHONPATH": "/unit", "MY_TOKEN": "s3cret"}  # noqa: RUF012


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []

    def environment(instance: Instance) -> Environment:
        names.append(instance.name)
        return Environment()

    monkeypatch.setattr(left_to_unit, "unit_environment", environment)
    return names


def test_several_knobs_and_one(asked: list[str]) -> None:
    several: dict[str, Any] = {
        "knob": "",
        "refused": None,
        "warnings": [],
        "expect": {"PYTHONPATH": None, "A": None, "B": "1"},
    }
    one: dict[str, Any] = {"knob": "PYTHONPATH", "after": None, "line_after": None, "refused": None, "warnings": []}
    left_to_unit.leave_to_unit(DECODE, [several, one])
    assert several["expect"] == {"PYTHONPATH": "/unit", "A": None, "B": "1"} and one["left"] == "/unit"
    assert several["warnings"] == ["decode: its unit sets PYTHONPATH=/unit too, so that is what it has then"]


def test_the_unit_is_asked_only_when_something_is_taken_off_and_never_for_a_secret(asked: list[str]) -> None:
    left_to_unit.leave_to_unit(
        DECODE, [{"knob": "A", "after": "1", "line_after": None, "refused": None, "warnings": []}]
    )
    refused = {"knob": "PYTHONPATH", "after": None, "line_after": None, "refused": "no", "warnings": []}
    left_to_unit.leave_to_unit(DECODE, [refused])
    assert not asked and "left" not in refused
    secret: dict[str, Any] = {"knob": "", "refused": None, "warnings": [], "expect": {"MY_TOKEN": None}}
    left_to_unit.leave_to_unit(DECODE, [secret])
    assert secret["expect"] == {"MY_TOKEN": None} and not secret["warnings"]
