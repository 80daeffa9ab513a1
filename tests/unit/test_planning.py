# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.asked import (
    check_extra_names,
    check_templates,
    check_typed,
    read_asked,
)
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plan_text import plan_lines
from ansible_collections.pdops.sglang.plugins.module_utils.planning import Plan, decide

from tests.unit.offered import KNOB, edit, report


def instances() -> list[Instance]:
    return [
        Instance(role, role, f"sglang-{role}", f"/root/{role}.sh", f"http://127.0.0.1:{30000 + n}", "gpu1")
        for n, role in enumerate(("prefill", "decode", "router"))
    ]


def info(open_change: Any = None, unreported: Any = (), **per_role: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "instances": {role: report(role, **per_role.get(role, {})) for role in ("prefill", "decode", "router")},
            "open_change": open_change,
            "unreported": list(unreported),
        }
    ]


def plan(verb: str, infos: list[dict[str, Any]], take_over: str | None = None, **given: Any) -> Plan:
    return decide("lab", instances(), infos, read_asked(verb, given, instances()), take_over)


def test_the_one_candidate_is_restored_with_a_co_restart() -> None:
    made = plan("restore", info(decode={"edits": [edit()]}))
    assert made.summary == f"restored {KNOB}=512 on decode"
    assert made.restart == ("prefill", "decode", "router")
    assert made.expect == {"decode": {KNOB: "512"}}
    assert made.changed


def test_several_candidates_are_listed_and_nothing_is_planned() -> None:
    with pytest.raises(PdopsError) as refused:
        plan("restore", info(decode={"edits": [edit(), edit(knob="SGLANG_LOG_MS", after="1")]}))
    assert f"{KNOB}=512 on decode" in str(refused.value)
    assert "SGLANG_LOG_MS=1 on decode" in str(refused.value)
    assert f"-e knob={KNOB} -e instance=decode" in str(refused.value)


def test_nothing_to_restore_is_no_change_and_says_so() -> None:
    made = plan("restore", info())
    assert not made.changed
    assert "nothing to restore: no older version or backup" in str(made.nothing)


def test_a_right_file_with_a_process_from_before_the_edit_means_restart_and_no_write() -> None:
    stale = {"knob": KNOB, "script": "512", "running": None, "evidence": "main process 12"}
    made = plan("restore", info(decode={"stale": [stale]}))
    assert made.edits == ()
    assert made.restart == ("prefill", "decode", "router")
    assert "started before the edit" in made.why["decode"]
    assert made.summary == f"restored {KNOB}=512 on decode"


def test_a_missing_line_with_a_process_that_still_has_the_value_means_write_and_no_restart() -> None:
    made = plan("restore", info(decode={"edits": [edit(in_effect=True)]}))
    assert made.restart == ()
    assert len(made.edits) == 1
    assert any("nothing is restarted" in sentence for sentence in made.warnings)


def test_a_refused_edit_refuses_the_plan_with_its_lines() -> None:
    other = [{"sign": "+", "line": 3, "text": "export B=2"}]
    with pytest.raises(PdopsError, match="decode: would change more") as refused:
        plan("restore", info(decode={"edits": [edit(refused="would change more", other_lines=other)]}), knob=KNOB)
    assert refused.value.details["other_lines"] == other


def test_an_instance_that_cannot_be_looked_at_refuses_with_its_sentence() -> None:
    with pytest.raises(PdopsError, match="decode: the serve script /x does not exist"):
        plan("restore", info(decode={"error": "the serve script /x does not exist"}))
    with pytest.raises(PdopsError, match="did not answer"):
        decide("lab", instances(), [], read_asked("restore", {}, instances()))


def test_an_unknown_source_is_refused_with_what_there_is() -> None:
    sources = [{"name": "serve.sh.bak", "told": "backup serve.sh.bak"}]
    with pytest.raises(
        PdopsError,
        match=r"from=nosuch is no version and no backup of a script; there are: backup serve.sh.bak of decode",
    ):
        plan("restore", info(decode={"sources": sources, "source_known": False}), **{"from": "nosuch"})
    assert not plan("restore", info(decode={"sources": sources, "source_known": True}), **{"from": "bak"}).changed


def test_of_many_sources_each_content_is_told_once_and_ten_at_most() -> None:
    sources = [{"name": f"{number % 12}", "told": f"version {number}"} for number in range(30)]
    with pytest.raises(PdopsError) as refused:
        plan("restore", info(decode={"sources": sources, "source_known": False}), **{"from": "nosuch"})
    listed = ", ".join(f"version {number} of decode" for number in range(10))
    assert str(refused.value).endswith(f"there are: {listed} and 2 more, which history.yml lists.")


def test_a_knob_on_the_router_restarts_only_the_router() -> None:
    assert plan("restore", info(router={"edits": [edit("router", "RUST_LOG", "info")]})).restart == ("router",)


def test_set_without_a_place_needs_exactly_one_instance_that_has_or_had_the_knob() -> None:
    known = {"knob": {"known": True, "script": None, "running": "absent"}}
    everywhere = {role: {"edits": [edit(role)]} for role in ("prefill", "decode", "router")}
    with pytest.raises(PdopsError, match="no script here has or had it"):
        plan("set", info(**everywhere), knob=KNOB, value="512")
    everywhere["decode"].update(known)
    made = plan("set", info(**everywhere), knob=KNOB, value="512")
    assert [item["instance"] for item in made.edits] == ["decode"]
    everywhere["prefill"].update(known)
    with pytest.raises(PdopsError, match="2 instances have or had it"):
        plan("set", info(**everywhere), knob=KNOB, value="512")
    assert len(plan("set", info(decode={"edits": [edit()]}), knob=KNOB, value="512", role="decode").edits) == 1


def test_restart_scopes() -> None:
    assert plan("restart", info()).restart == ("prefill", "decode", "router")
    assert plan("restart", info(), scope="decode").restart == ("decode",)
    assert plan("restart", info(), scope="router").restart == ("router",)
    assert plan("restart", info(), role="decode").restart == ("decode",)
    assert plan("restart", info(), instance="router").restart == ("router",)
    assert plan("restart", info(), instance="prefill,decode,router").restart == ("prefill", "decode", "router")
    with pytest.raises(PdopsError, match="prefill cannot be restarted by itself"):
        plan("restart", info(), instance="prefill")
    with pytest.raises(PdopsError, match="is not in scope=router"):
        plan("restart", info(), scope="router", instance="decode")


OPEN = {
    "id": "one-1",
    "who": "alice on ops1",
    "summary": "restored A=1",
    "opened": "T0",
    "ended": None,
    "state": "open",
    "reason": "",
    "last_step": "stop decode",
    "lease_left_s": 40.0,
    "controller_gone": None,
    "free": False,
    "verb": "restore",
    "files": [{"instance": "decode", "path": "/d.sh", "now": "new", "knobs": {"A": [None, "1"]}}],
}


def test_an_open_change_of_another_operator_refuses_and_says_how_to_go_on() -> None:
    with pytest.raises(PdopsError) as refused:
        plan("restore", info(open_change=OPEN))
    for part in ("alice on ops1", "since T0", "'stop decode'", "40 s", "-e take_over=one-1"):
        assert part in str(refused.value)


def test_an_interrupted_change_is_told_and_ended_with_a_restart_even_if_nothing_else_is_to_do() -> None:
    made = plan("restore", info(open_change={**OPEN, "controller_gone": True, "free": True}))
    assert made.take_over == "one-1"
    assert made.restart == ("prefill", "decode", "router")
    assert "stopped after 'stop decode'; its controller is gone" in made.found[0]


def test_another_verb_does_not_confirm_what_an_interrupted_change_left() -> None:
    gone = {**OPEN, "controller_gone": True, "free": True}
    for asked in ({"verb": "restart"}, {"verb": "restore", "knob": "B"}, {"verb": "set", "knob": "A", "value": "2"}):
        verb = asked.pop("verb")
        with pytest.raises(PdopsError, match=r"recover.yml -e finish=back") as refused:
            plan(verb, info(open_change=gone), **asked)
        assert "its new script is in place" in str(refused.value)
    # One that had not written a script yet keeps nothing, and an operator may say to take it over.
    assert plan("restart", info(open_change={**gone, "files": [{**gone["files"][0], "now": "old"}]})).restart
    assert plan("restart", info(open_change=gone), take_over="one-1").take_over == "one-1"
    assert plan("restore", info(open_change=gone)).summary == "finished: restored A=1"


def test_decode_alone_is_refused_while_the_others_are_down() -> None:
    seen = info(router={"unit": {"pid": None}})
    with pytest.raises(PdopsError, match="but router does not run; restart all with -e scope=co"):
        plan("restart", seen, scope="decode")
    assert plan("restart", seen).restart == ("prefill", "decode", "router")


def test_overlap_is_planned_where_both_engines_start() -> None:
    assert plan("restart", info(), overlap="true").overlap
    assert not plan("restart", info(), overlap="true", scope="router").overlap
    assert "both load at the same time" in " ".join(plan_lines(plan("restart", info(), overlap=True), instances()))
    with pytest.raises(PdopsError, match="overlap=maybe is not yes or no"):
        plan("restart", info(), overlap="maybe")


def test_taking_over_must_name_the_open_change() -> None:
    assert plan("restore", info(open_change=OPEN), take_over="one-1").take_over == "one-1"
    with pytest.raises(PdopsError, match="no such change is open"):
        plan("restore", info(), take_over="two-2")


def test_a_change_that_is_being_rolled_back_is_waited_for() -> None:
    with pytest.raises(PdopsError, match="being rolled back now"):
        plan("restore", info(open_change={**OPEN, "state": "rolling-back", "controller_gone": True}))


def test_verify_reports_an_open_change_and_does_not_stumble_over_it() -> None:
    made = plan("verify", info(open_change=OPEN))
    assert not made.changed
    assert "lease runs 40 s more" in made.found[0]


def test_verify_proves_nothing_of_an_instance_without_its_script_and_all_else_of_one_whose_manager_is_down() -> None:
    with pytest.raises(PdopsError, match="decode: the script is empty"):
        plan("verify", info(decode={"error": "the script is empty", "no_script": True}))
    assert not plan("verify", info(decode={"error": "supervisord does not answer", "no_script": False})).changed


def test_a_rollback_that_happened_without_a_controller_is_told() -> None:
    gone = {**OPEN, "state": "rolled-back", "ended": "T1", "reason": "nobody confirmed it"}
    assert (
        "was rolled-back by its guard at T1: nobody confirmed it" in plan("restore", info(unreported=[gone])).found[0]
    )


@pytest.mark.parametrize(
    ("verb", "given", "words"),
    [
        ("restore", {"knob": f"{KNOB}=512"}, f"type -e knob={KNOB} -e value=512"),
        ("restore", {"knob": "1BAD"}, "1BAD"),
        ("restore", {"knob": "HF_TOKEN"}, "HF_TOKEN"),
        ("restore", {"value": "5"}, "without a knob"),
        ("restore", {"instance": "lab-decod"}, "it must be one of prefill, decode, router"),
        ("restore", {"role": "decoder"}, "must be prefill, decode or router"),
        ("restore", {"role": "decode", "instance": "prefill"}, "nothing in common"),
        ("restore", {"scope": "all"}, "must be co"),
        ("restore", {"scope": "router"}, "would not take effect"),
        ("restore", {"expect_only": "perhaps"}, "is not yes or no"),
        ("set", {}, "set_knob needs a knob"),
        ("set", {"knob": KNOB}, "needs a value"),
        ("set", {"knob": KNOB, "value": "1", "state": "absent"}, "contradict"),
        ("set", {"knob": KNOB, "value": True}, "quote"),
        (
            "set",
            {"knob": KNOB, "value": 1.5},
            "is the number 1.5, and how it was written (1.5, 1.50, 15e-1) cannot be told",
        ),
        ("set", {"knob": KNOB, "value": [1]}, "is a list"),
        ("set", {"knob": KNOB, "value": {"a": 1}}, "is a mapping"),
        ("set", {"knob": KNOB, "value": None}, """(the empty one: -e '{"value": ""}')"""),
        ("set", {"knob": "HF_TOKEN=hf_x", "value": None}, "HF_TOKEN looks like a secret"),
        ("set", {"knob": KNOB, "state": "gone"}, "must be present or absent"),
        ("revert", {}, "revert_knob needs a knob"),
        ("restart", {"knob": KNOB}, "takes no knob"),
    ],
)
def test_wrong_input_is_one_sentence_before_anything_is_looked_at(verb: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(PdopsError) as refused:
        read_asked(verb, given, instances())
    assert words in str(refused.value)


@pytest.mark.parametrize("name", ["scpoe", "instnce", "knbo", "_raw_params", "tak_over"])
def test_a_misspelt_parameter_is_refused_and_not_ignored(name: str) -> None:
    with pytest.raises(PdopsError, match=r"did you mean|as JSON"):
        check_extra_names([name])


def test_the_hint_of_a_cut_value_names_the_word_that_is_likely_to_be_meant() -> None:
    for names, word in ((["knob", "reason", "_raw_params"], "reason"), (["knob", "value", "_raw_params"], "value")):
        with pytest.raises(PdopsError, match=rf"""-e '{{"{word}": "a b"}}'"""):
            check_extra_names(names)


def test_a_knob_of_sglang_is_no_word_of_its_own() -> None:
    with pytest.raises(PdopsError, match=rf"-e {KNOB}= sets no knob; type -e knob={KNOB} -e value=VALUE"):
        check_extra_names(["role", KNOB])


def test_other_extra_variables_are_nobodys_business_here() -> None:
    check_extra_names(["knob", "pd_load_timeout_s", "ansible_user", "my_own_variable", "take_over"])


def test_an_empty_value_is_one_for_set_and_none_elsewhere() -> None:
    assert read_asked("set", {"knob": KNOB, "value": ""}, instances()).value == ""
    for verb, more in (("restore", {}), ("revert", {}), ("set", {"state": "absent"})):
        assert read_asked(verb, {"knob": KNOB, "value": "", **more}, instances()).value is None
    assert read_asked("restart", {"knob": "", "value": ""}, instances()).knob is None


@pytest.mark.parametrize("typed", ["value=", "knob=A value= role=decode", "knob=A value="])
def test_an_empty_value_on_the_command_line_may_be_a_slip(typed: str) -> None:
    with pytest.raises(PdopsError, match=r"""type -e '{"value": ""}'.*state=absent"""):
        check_typed(["role=decode", typed])


def test_what_is_no_slip_passes() -> None:
    check_typed(["value=1", "x_value= value=2", '{"value": ""}', "@value= .yml", "value='' knob=A", "value=a value=b"])


@pytest.mark.parametrize("typed", ["{{ 1 + 1 }}", "a{{x}}", "{% if x %}", "a{# b #}"])
def test_a_template_that_ansible_evaluated_is_refused(typed: str) -> None:
    for came_out in (2, None, "a"):
        with pytest.raises(PdopsError, match="-e value= holds a template"):
            check_templates({"value": typed}, {"value": came_out})
    check_templates({"value": typed, "other": typed}, {"value": typed})  # marked as no template in a file


def test_a_knob_that_nobody_ever_had_is_a_slip_of_the_pen() -> None:
    seen = {role: {"knob": {"known": False}, "known_knobs": [KNOB]} for role in ("prefill", "decode", "router")}
    with pytest.raises(PdopsError, match=rf"did you mean {KNOB}\?"):
        plan("restore", info(**seen), knob="SGLANG_SM120_MMA_TARGT_CTAS")


def test_a_known_knob_in_small_letters_is_a_slip_of_the_pen() -> None:
    seen: dict[str, Any] = {
        role: {"knob": {"known": False}, "known_knobs": [KNOB]} for role in ("prefill", "decode", "router")
    }
    with pytest.raises(PdopsError, match=rf"did you mean {KNOB}\?"):
        plan("restore", info(**seen), knob=KNOB.lower())
    seen["decode"]["edits"] = [edit("decode", KNOB.lower())]
    with pytest.raises(PdopsError, match=rf"did you mean {KNOB}\? .*add -e new_knob=yes"):
        plan("set", info(**seen), knob=KNOB.lower(), value="512", role="decode")


def test_what_was_reverted_already_is_told_with_the_way_to_undo_that() -> None:
    reverted = {"id": "r-1", "opened": "2026-11-30T09:18:41Z", "who": "alice on ops"}
    state = {"known": True, "script": None, "running": "absent (environ)"}
    made = plan("revert", info(decode={"knob": state, "reverted": reverted}), knob=KNOB)
    assert not made.changed
    assert made.nothing and made.nothing.endswith(
        "its newest change was a revert (2026-11-30T09:18:41Z, by alice on ops), "
        "and that is undone by ansible-playbook rollback.yml -e change=r-1"
    )


def test_a_value_that_nothing_has_is_told_with_those_that_there_are() -> None:
    state = {"known": True, "script": "512", "running": "=512 (environ)", "former": ["256", "512"]}
    made = plan("restore", info(decode={"knob": state}), knob=KNOB, value="1024")
    assert made.nothing and "no version and no backup has =1024: there are 256, 512, and set_knob.yml" in made.nothing
    there = plan("restore", info(decode={"knob": state}), knob=KNOB, value="512")
    assert there.nothing and "no version and no backup" not in there.nothing


def test_verify_says_that_it_proves_more_than_a_limit_names() -> None:
    told = "the limit names decode, and all of the deployment is proved: none serves alone"
    assert told in plan("verify", info(), instance=["decode"]).warnings
    assert not plan("verify", info()).warnings
    assert not plan("verify", info(), instance=["prefill", "decode", "router"]).warnings


def test_a_new_knob_goes_where_it_is_told_to_go() -> None:
    edits = {role: {"edits": [edit(role, "SGLANG_LOG_MS", "1")]} for role in ("prefill", "decode", "router")}
    asked = {"knob": "SGLANG_LOG_MS", "value": "1", "new_knob": "yes"}
    with pytest.raises(PdopsError, match="SGLANG_LOG_MS: say where with -e role=decode or -e instance=NAME"):
        plan("set", info(**edits), **asked)
    assert [item["instance"] for item in plan("set", info(**edits), **asked, role="decode").edits] == ["decode"]


def test_a_misspelled_knob_is_set_only_when_it_is_meant() -> None:
    name = KNOB[:-1]
    seen = {
        role: {"knob": {"known": False}, "known_knobs": [KNOB] if role == "decode" else []}
        for role in ("prefill", "decode", "router")
    }
    seen["prefill"]["edits"] = [edit("prefill", name)]  # type: ignore[assignment]
    asked = {"knob": name, "value": "512", "role": "prefill"}
    with pytest.raises(PdopsError, match=rf"{name} is in no script.*did you mean {KNOB}\? .*add -e new_knob=yes"):
        plan("set", info(**seen), **asked)
    assert plan("set", info(**seen), **asked, new_knob="yes").edits
    seen["prefill"]["edits"] = [edit("prefill", "SGLANG_LOG_MS")]  # type: ignore[assignment]
    assert plan("set", info(**seen), **{**asked, "knob": "SGLANG_LOG_MS"}).edits  # new, and near to nothing


def test_other_values_on_record_are_told() -> None:
    made = plan("restore", info(decode={"edits": [edit(other_values={"768": "version abc"})]}))
    assert any("other values of" in sentence and "768 (version abc)" in sentence for sentence in made.warnings)


def test_a_unit_name_names_an_instance_too() -> None:
    assert read_asked("restore", {"instance": "sglang-decode"}, instances()).instances == ("decode",)


def test_the_printed_plan_shows_the_line_the_order_and_the_reason() -> None:
    text = "\n".join(plan_lines(plan("restore", info(decode={"edits": [edit()]})), instances()))
    assert f"+12: export {KNOB}=512" in text
    assert "differs in 1 line;" in text
    assert "stop router -> decode -> prefill, then start prefill -> decode -> router" in text
    assert "decode: its script changes" in text
