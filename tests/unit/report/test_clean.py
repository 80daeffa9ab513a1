# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Masking, control characters, numbers and moments."""

from __future__ import annotations

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.report import clean

SECRET = "hf_abcdefSECRET"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (None, ""),
        ("a\x1b[1;31mred\x1b[0m\x1b]0;title\x07b", "aredb"),
        ("tab\tand\r\nline\x00\x7f", "tab\tand\nline"),
        ("\ud800x", "?x"),
        (f"export HF_TOKEN={SECRET}", "export HF_TOKEN=********"),
        ({"a": 1}, '{"a": 1}'),
    ],
)
def test_texts(raw, shown):
    assert clean.text(raw) == shown


def test_a_long_text_is_cut_and_says_so():
    assert clean.text("x" * 5000).endswith("... and 1000 more characters")
    assert clean.lines([str(n) for n in range(100)], most=10) == [
        "... 90 lines before these are left out",
        *map(str, range(90, 100)),
    ]


def test_secrets_in_data_are_masked_by_name_and_what_is_said_about_them_stays():
    assert clean.data({"api_key": SECRET, "nested": [{"HF_TOKEN": SECRET}], "port": 1, "inf": float("inf")}) == {
        "api_key": "********",
        "nested": [{"HF_TOKEN": "********"}],
        "port": 1,
        "inf": "inf",
    }
    assert clean.data({"HF_TOKEN": None, "API_KEY": {"state": "set"}}) == {
        "HF_TOKEN": None,
        "API_KEY": {"state": "set"},
    }


def test_a_secret_known_by_name_is_masked_in_every_other_text():
    given = {
        "evidence": {"api_key": SECRET},
        "log": [f"got {SECRET} and more"],
        "short": {"token": "abc"},
        "word": "abc",
    }
    assert clean.without_secrets(given) == {
        "evidence": {"api_key": "********"},
        "log": ["got ******** and more"],
        "short": {"token": "abc"},
        "word": "abc",
    }
    script = {"diff": f'export A=1\nexport HF_TOKEN="{SECRET}" B=2\n', "log": f"{SECRET}"}
    assert SECRET not in str(clean.without_secrets(script)) and "B=2" in clean.without_secrets(script)["diff"]


def test_pairs_of_nested_data():
    assert clean.pairs({"a": {"b": 1, "c": [1, "x"]}, "d": [{"e": None}], "f": True}) == [
        {"name": "a.b", "value": "1"},
        {"name": "a.c", "value": "1, x"},
        {"name": "d[0].e", "value": "none"},
        {"name": "f", "value": "true"},
    ]
    assert clean.pairs({}) == clean.pairs(None) == []
    assert len(clean.pairs({str(n): n for n in range(100)})) == 81


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        (1795983973.5, 1795983973.5),
        ("1795983973.5", 1795983973.5),
        ("2026-11-29T20:06:14Z", 1795982774.0),
        ("2026-11-29T20:06:14", 1795982774.0),
    ]
    + [(odd, None) for odd in (None, "yesterday", True, -1, 0, float("nan"), float("inf"), 1e15, [], {})],
)
def test_moments(raw, seconds):
    assert clean.moment(raw) == seconds
