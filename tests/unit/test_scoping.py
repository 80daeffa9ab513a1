# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What restarts when something changes: one or several of a role, knobs of the pair, and what was asked for."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.asked import read_asked
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plan_text import plan_lines
from ansible_collections.pdops.sglang.plugins.module_utils.planning import Plan, decide

from tests.unit import offered

NAMES = ("prefill-1", "prefill-2", "decode-1", "decode-2", "router")
PAIR = "SGLANG_DSV4_KV_LAYOUT"


def edit(instance: str = "decode", knob: str = "A", after: str | None = "512", **more: Any) -> dict[str, Any]:
    return offered.edit(instance, knob, after, **more)


def instances(names: tuple[str, ...]) -> list[Instance]:
    return [
        Instance(name, name.split("-")[0], f"s-{name}", f"/root/{name}.sh", f"http://gpu:{30000 + n}", "gpu1")
        for n, name in enumerate(names)
    ]


def plan(
    verb: str,
    edits: list[dict[str, Any]] | None = None,
    names: tuple[str, ...] = NAMES,
    down: str = "",
    intended: dict[str, dict[str, str]] | None = None,
    interrupted: dict[str, Any] | None = None,
    **given: Any,
) -> Plan:
    found = {
        name: offered.report(
            name.split("-")[0],
            edits=[item for item in edits or [] if item["instance"] == name],
            unit={"pid": None if name == down else 7},
            intended=(intended or {}).get(name, {}),
            script={"younger_s": -5.0},
        )
        for name in names
    }
    infos = [{"instances": found, "open_change": interrupted, "unreported": []}]
    members = instances(names)
    return decide("lab", members, infos, read_asked(verb, given, members))


def both_decodes(knob: str = "A") -> list[dict[str, Any]]:
    return [edit(f"decode-{number}", knob) for number in (1, 2)]


def test_decodes_of_which_there_are_several_restart_one_by_one_and_the_plan_says_so() -> None:
    made = plan("set", both_decodes(), knob="A", value="512", role="decode")
    assert (made.scope, made.restart) == ("rolling", ("decode-1", "decode-2"))
    text = "\n".join(plan_lines(made, instances(NAMES)))
    assert "restart one by one: decode-1 -> decode-2" in text and "scope=rolling: only scripts of decodes" in text
    assert plan("set", both_decodes(), knob="A", value="512", role="decode", scope="co").restart == NAMES
    assert plan("set", [edit("decode-2", "A")], knob="A", value="512", instance="decode-2").restart == ("decode-2",)


def test_a_changed_prefill_implies_decode() -> None:
    made = plan("set", [edit("prefill-1", "A")], knob="A", value="512", instance="prefill-1")
    assert (made.scope, made.restart) == ("co", NAMES)
    assert made.rule == "a prefill changes, and decode has to meet it afresh"
    rolling = plan("set", [edit("prefill-1", "A")], knob="A", value="512", instance="prefill-1", scope="rolling")
    assert (rolling.scope, rolling.restart) == ("rolling", ("prefill-1",))


def test_a_knob_of_the_pair_goes_on_all_engines_and_restarts_both_roles() -> None:
    edits = [edit(name, PAIR) for name in NAMES]
    made = plan("set", edits, knob=PAIR, value="512")
    assert [item["instance"] for item in made.edits] == list(NAMES[:4]) and made.scope == "co"
    assert made.rule.startswith(f"{PAIR} is a knob of the pair")
    with pytest.raises(PdopsError, match="would be unset on prefill-1, prefill-2; =512 on decode-1, decode-2"):
        plan("set", both_decodes(PAIR), knob=PAIR, value="512", role="decode")
    told_so = plan("set", both_decodes(PAIR), knob=PAIR, value="512", role="decode", one_sided="yes")
    assert told_so.scope == "co"
    has = {f"prefill-{number}": {PAIR: "512"} for number in (1, 2)}
    assert plan("set", both_decodes(PAIR), knob=PAIR, value="512", role="decode", intended=has).scope == "co"
    with pytest.raises(PdopsError, match="one at a time they would differ meanwhile"):
        plan("set", edits, knob=PAIR, value="512", scope="rolling")


def test_names_of_the_inventory_are_knobs_of_the_pair_too() -> None:
    with pytest.raises(PdopsError, match="A must be equal on prefill and decode"):
        plan("set", both_decodes(), knob="A", value="512", role="decode", pair_knobs=["A"])


@pytest.mark.parametrize(
    ("given", "scope", "restart"),
    [
        ({}, "co", NAMES),
        ({"role": "decode"}, "rolling", ("decode-1", "decode-2")),
        ({"instance": "decode-2"}, "rolling", ("decode-2",)),
        ({"scope": "decode"}, "rolling", ("decode-1", "decode-2")),
        ({"scope": "rolling"}, "rolling", NAMES[:4]),
        ({"scope": "rolling", "role": "prefill"}, "rolling", ("prefill-1", "prefill-2")),
        ({"scope": "co", "role": "decode"}, "co", NAMES),
        ({"role": "router"}, "router", ("router",)),
    ],
)
def test_what_a_restart_means(given: dict[str, str], scope: str, restart: tuple[str, ...]) -> None:
    made = plan("restart", **given)
    assert (made.scope, made.restart) == (scope, restart)


@pytest.mark.parametrize(
    ("given", "names", "down", "said"),
    [
        ({"scope": "rolling"}, ("prefill", "decode", "router"), "", "there are not two of a role here"),
        ({"scope": "rolling", "role": "router"}, NAMES, "", "a router is what the others are taken out of"),
        (
            {"scope": "rolling", "role": "decode"},
            ("prefill-1", "prefill-2", "decode", "router"),
            "",
            "there is one decode",
        ),
        ({"role": "prefill"}, NAMES, "", "scope=rolling \\(one prefill at a time\\)"),
        ({"role": "decode"}, NAMES, "decode-2", "but decode-2 does not run"),
        ({"instance": "decode-2"}, NAMES, "decode-1", "but decode-1 does not run"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str], names: tuple[str, ...], down: str, said: str) -> None:
    with pytest.raises(PdopsError, match=said):
        plan("restart", None, names, down, **given)


def test_the_one_that_is_down_may_be_brought_back_by_itself() -> None:
    assert plan("restart", None, NAMES, "decode-2", instance="decode-2").restart == ("decode-2",)


def interrupted(restart: list[str], out: list[str], rolling: bool = True) -> dict[str, Any]:
    """A restart of the decodes one by one whose controller is gone, and what it had still before it."""
    return {
        "id": "one-1",
        "who": "alice on ops1",
        "verb": "restart",
        "summary": "restarted decode-1, decode-2",
        "opened": "T0",
        "state": "open",
        "free": True,
        "controller_gone": True,
        "last_step": "take out decode-2",
        "lease_left_s": 9.0,
        "files": [],
        "rolling": rolling,
        "undone": {"restart": restart, "out": out},
    }


@pytest.mark.parametrize(
    ("restart", "out", "down", "rolling", "names"),
    [
        (["decode-2"], [], "", True, ("decode-2",)),
        (["decode-2"], ["decode-2"], "", True, ("decode-2",)),
        (["decode-2"], ["decode-1"], "decode-1", True, ("decode-1", "decode-2")),
        (["decode-1", "decode-2"], [], "", True, ("decode-1", "decode-2")),
        ([], [], "", True, ()),
        (["decode-2"], [], "", False, NAMES),  # it had come to a restart of all
        (["decode-2"], [], "decode-1", True, NAMES),  # the one that should serve meanwhile died by itself
        (["decode-2"], [], "prefill-1", True, NAMES),
        (["decode-2"], [], "router", True, NAMES),
    ],
)
def test_what_a_rolling_restart_had_still_before_it_is_carried_through_one_by_one(
    restart: list[str], out: list[str], down: str, rolling: bool, names: tuple[str, ...]
) -> None:
    made = plan("recover", down=down, interrupted=interrupted(restart, out, rolling))
    assert made.restart == names
    assert made.scope == ("none" if not names else "co" if "router" in names else "rolling")


def test_the_next_run_begins_with_what_the_interrupted_one_left_out_of_the_router() -> None:
    """With the first one out too, nobody would be left to serve."""
    made = plan("restart", role="decode", interrupted=interrupted(["decode-2"], ["decode-2"]))
    assert (made.scope, made.restart) == ("rolling", ("decode-2", "decode-1"))
    down = plan("restart", role="decode", down="decode-1", interrupted=interrupted(["decode-2"], ["decode-1"]))
    assert (down.scope, down.restart) == ("rolling", ("decode-1", "decode-2"))
    one = plan("restart", instance="decode-2", interrupted=interrupted(["decode-2"], ["decode-1"]))
    assert one.restart == ("decode-1", "decode-2")
    assert "took it out of the router" in one.why["decode-1"] and one.why["decode-2"] == "asked for"
