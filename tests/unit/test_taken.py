# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A word of the command line that a verb does not take is refused, whatever the verb; one that it takes is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import PLAYBOOKS
from ansible_collections.pdops.sglang.plugins.module_utils.asked import PARAMETERS, VERBS
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.taken import TAKEN, check_taken

ROOT = Path(__file__).resolve().parents[2]


def test_every_playbook_and_every_verb_of_a_plan_is_known() -> None:
    assert set(TAKEN) == set(PLAYBOOKS) - {"record"}  # whose words are those of an entry
    for verb in VERBS:
        check_taken(verb, {})


@pytest.mark.parametrize("verb", sorted(TAKEN))
def test_what_a_verb_does_not_take_is_refused_with_what_it_takes(verb: str) -> None:
    for word in PARAMETERS:
        if word in TAKEN[verb]:
            check_taken(verb, {word: "x"})
            continue
        with pytest.raises(PdopsError, match=rf"^{verb} takes no {word}=; it "):
            check_taken(verb, {word: "x"})
        check_taken(verb, {word: ""})


@pytest.mark.parametrize(
    ("verb", "word", "meant"),
    [
        ("probe", "round", "rounds"),
        ("probe", "requets", "requests"),
        ("probe", "hops", "hop"),
        ("kernels", "kernel_whel", "kernel_wheel"),
        ("register_worker", "rol", "role"),
        ("set", "kbob", "knob"),
    ],
)
def test_a_slip_of_the_pen_is_told(verb: str, word: str, meant: str) -> None:
    with pytest.raises(PdopsError, match=rf"-e {word}= is unknown; did you mean {meant}=\?"):
        check_taken(verb, {word: "1"})


@pytest.mark.parametrize("given", ["routre", ["router", "routre"], "router,routre"])
def test_a_hop_that_is_none(given: object) -> None:
    with pytest.raises(PdopsError, match=r"hop=routre is unknown; it must be one or more of proxy, router, pair"):
        check_taken("probe", {"hop": given})
    check_taken("probe", {"hop": "router, pair", "series": ["kept"]})


def test_an_operators_own_variables_are_nobodys_business() -> None:
    for verb in TAKEN:
        check_taken(verb, {"ansible_user": "root", "pd_drain_s": 3, "site": "x", "kind": "x", "change_wave": 2})


def test_the_words_of_the_probe_are_those_of_its_playbook() -> None:
    text = (ROOT / "playbooks" / "tasks" / "probe.yml").read_text()
    names = set(re.findall(r"\b([a-z_]+) is defined else omit", text))
    names |= set(re.findall(r'"\{\{ ([a-z_]+) \| default\((?:omit|hostvars)', text))
    assert names - {"probe_proxy", "pd_report_dir"} == set(TAKEN["probe"])
