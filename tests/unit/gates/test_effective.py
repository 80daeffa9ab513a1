# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate effective on real processes whose environ is whole, overwritten by setproctitle, or somebody else's."""

from __future__ import annotations

import json
import os
import subprocess
import time
from types import SimpleNamespace

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.gates import effective, evidence
from ansible_collections.pdops.sglang.plugins.module_utils.gates.evidence import ABSENT, SET, UNKNOWN, look_at
from ansible_collections.pdops.sglang.plugins.module_utils.processes import (
    Environ,
    arguments,
    descendants,
    is_shell,
    kill_all,
    process_table,
    read_process,
)
from supervised import engine

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"


class Run:
    """One engine, found as a service manager would find it."""

    def __init__(self, command, env):
        clean = {"PATH": os.environ["PATH"], **env}
        self.process = subprocess.Popen(command, shell=True, executable="/bin/bash", env=clean, start_new_session=True)
        self.name = "test"

    def processes(self, _unit):
        table = process_table()
        roots = {pid for pid, one in table.items() if self.process.pid in (pid, one.session)}
        return sorted(descendants(roots, table))

    @property
    def main(self):
        return read_process(self.process.pid).id

    def close(self):
        table = process_table()
        kill_all([table[pid].id for pid in self.processes("") if pid in table])
        self.process.wait()


@pytest.fixture
def start():
    runs = []

    def go(children=2, title="sglang::scheduler_TP0", shell=False, env=None, wait=True, sets="", **exports):
        lines = [f"export {name}={value}" for name, value in exports.items()]
        more = (["--title", title] if title else []) + (["--sets", sets] if sets else [])
        command = engine("--children", children, *more)
        # without exec the shell stays as the main process
        lines.append(f"{command}; true" if shell else f"exec {command}")
        run = Run("\n".join(lines), env or {})
        runs.append(run)
        deadline = time.monotonic() + 60
        while wait:
            pids = run.processes("")
            if sum(arguments(pid)[:1] == [title] for pid in pids) == children and not all(map(is_shell, pids)):
                break
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return run

    yield go
    for run in runs:
        run.close()


def found(run, name=KNOB, env_vars=None):
    sources = look_at(run.processes(""), run.main, engine=True)
    return evidence.find(name, sources, env_vars, "not asked")


def test_overwritten_schedulers_are_replaced_by_the_multiprocessing_helper(start):
    run = start(**{KNOB: "512"})
    seen = found(run)
    assert (seen.state, seen.value) == (SET, "512")
    assert seen.evidence.startswith("environ of the multiprocessing helper")
    assert found(run, "OTHER").state == ABSENT
    kinds = [(source.kind, source.whole) for source in look_at(run.processes(""), run.main, engine=True).ladder]
    assert kinds == [("scheduler", False), ("multiprocessing helper", True), ("main process", True)]


def test_spt_noenv_keeps_the_schedulers_environ(start):
    run = start(SPT_NOENV="1", **{KNOB: "512"})
    seen = found(run)
    assert (seen.state, seen.value) == (SET, "512")
    assert seen.evidence.startswith("environ of the scheduler ")


def without_helper(run):
    """As on Pythons whose multiprocessing starts none: its process is taken away."""
    for pid in run.processes(""):
        if any("resource_tracker" in word for word in arguments(pid)):
            os.kill(pid, 9)
            deadline = time.monotonic() + 60
            while read_process(pid) is not None and not read_process(pid).dead:
                assert time.monotonic() < deadline
                time.sleep(0.02)


def test_main_process_is_evidence_when_the_schedulers_are_its_children(start):
    run = start(**{KNOB: "512"})
    without_helper(run)
    seen = found(run)
    assert (seen.state, seen.value) == (SET, "512")
    assert seen.evidence == f"environ of the main process {run.process.pid}"
    assert found(run, "OTHER").state == ABSENT


def test_a_scheduler_that_is_nobodys_child_proves_nothing_about_the_main_process(start):
    run = start(**{KNOB: "512"})
    stranger = subprocess.Popen(
        [
            os.sys.executable,
            "-c",
            "import setproctitle, time; setproctitle.setproctitle('sglang::scheduler'); time.sleep(60)",
        ]
    )
    try:
        deadline = time.monotonic() + 60
        while arguments(stranger.pid)[:1] != ["sglang::scheduler"]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        sources = look_at([*run.processes(""), stranger.pid], run.main, engine=True)
        seen = evidence.find(KNOB, sources, None, "not asked")
        assert seen.state == UNKNOWN
        assert f"the scheduler {stranger.pid} is not a child of the main process" in seen.evidence
    finally:
        stranger.kill()
        stranger.wait()


def test_nothing_whole_is_unknown_and_never_absent(start):
    run = start(title="", children=0)
    sources = look_at(run.processes(""), run.main, engine=True)
    seen = evidence.find(KNOB, sources, None, "no /server_info")
    assert (seen.state, seen.value) == (UNKNOWN, None)
    assert "has no scheduler process" in seen.evidence
    assert "no /server_info" in seen.evidence


def test_a_shell_as_main_process_is_stepped_over(start):
    """Its environ lacks what the script exports: taking it would call the knob absent."""
    run = start(shell=True, **{KNOB: "512"})
    assert found(run).value == "512"
    without_helper(run)
    seen = found(run)
    assert (seen.state, seen.value) == (SET, "512")
    assert seen.evidence != f"environ of the main process {run.process.pid}"


def test_a_script_that_still_runs_is_starting():
    run = Run("sleep 60; true", {})
    try:
        deadline = time.monotonic() + 60
        while len(run.processes("")) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        sources = look_at(run.processes(""), run.main, engine=True)
        # its child is a program of the script, and no engine
        assert sources.starting or sources.obstacle
        assert evidence.find(KNOB, sources, None, "").state == UNKNOWN
    finally:
        run.close()


@pytest.mark.parametrize("kept", [False, True])
def test_what_the_engine_sets_itself_is_not_what_the_script_exports(start, kept):
    """SGLang does that with some twenty names, so its children have them (NCCL_NVLS_ENABLE; seen on the real pair)."""
    noenv = {"SPT_NOENV": "1"} if kept else {}
    run = start(sets="NCCL_NVLS_ENABLE=0", **noenv, **{KNOB: "512"})
    seen = found(run, "NCCL_NVLS_ENABLE")
    assert (seen.state, seen.value, seen.now) == (ABSENT, None, "0")
    verdict = effective.judge({"NCCL_NVLS_ENABLE": None}, {"NCCL_NVLS_ENABLE": seen}, True, {})
    assert verdict.result == "passed"
    assert "the engine itself has set it to 0" in verdict.said
    other = start(sets=f"{KNOB}=1", **noenv, **{KNOB: "512"})
    seen = found(other)
    assert (seen.state, seen.value, seen.now) == (SET, "512", "1")
    verdict = effective.judge({KNOB: "512"}, {KNOB: seen}, True, {})
    assert (verdict.result, "the engine itself has set it to 1" in verdict.said) == ("failed", True)


def damaged(kind, pid=1):
    return evidence.Source(kind, (pid,), (Environ({}, False, "overwritten"),))


def whole(kind, pid=1, **values):
    return evidence.Source(kind, (pid,), (Environ(values, True),))


def sources(*ladder, obstacle=""):
    return evidence.Sources(tuple(ladder), 1, (2,), False, obstacle)


def test_env_vars_are_used_for_registered_names_only():
    seen = evidence.find("SGLANG_X", sources(damaged("scheduler")), [{"SGLANG_X": "1"}], "")
    assert (seen.state, seen.value, seen.evidence) == (SET, "1", "env_vars of /server_info")
    missing = evidence.find("MY_FORK_KNOB", sources(damaged("scheduler")), [{"SGLANG_X": "1"}], "")
    assert missing.state == UNKNOWN
    assert "which holds only what SGLang registers" in missing.evidence
    assert "environ of the scheduler 1 is overwritten" in missing.evidence
    ranks = evidence.find("SGLANG_X", sources(), [{"SGLANG_X": "1"}, {"SGLANG_X": "2"}], "")
    assert ranks.state == UNKNOWN


def test_schedulers_that_differ_are_told():
    two = evidence.Source("scheduler", (1, 2), (Environ({"A": "1"}, True), Environ({"A": "2"}, True)))
    assert evidence.find("A", sources(two), None, "").evidence == "the scheduler processes 1, 2 differ"
    half = evidence.Source("scheduler", (1, 2), (Environ({"A": "1"}, True), Environ({}, False, "not permitted")))
    assert evidence.find("A", sources(half), None, "").state == UNKNOWN


def test_what_the_engine_changed_itself_is_seen():
    """Model hooks override exports (reference/sglang-pd.md B.3)."""
    seen = evidence.find("A", sources(whole("main process", A="1")), [{"A": "0"}], "")
    assert (seen.value, seen.now) == ("1", "0")
    wanted = {"A": "1"}
    named = effective.judge(wanted, {"A": seen}, True, {})
    assert named.result == "failed"
    assert "the engine itself has set it to 0" in named.said
    script = effective.judge(wanted, {"A": seen}, False, {})
    assert script.result == "passed"
    assert "the engine itself has set it to 0" in script.said
    assert script.evidence["knobs"]["A"]["engine_changed_it_to"] == "0"


@pytest.mark.parametrize(
    ("wanted", "has", "result", "words"),
    [
        ({"A": "1"}, {"A": "1"}, "passed", "A=1 by the environ of the main process"),
        ({"A": "1"}, {"A": "2"}, "failed", "A=2 by the environ of the main process 1, expected 1"),
        ({"A": "1"}, {}, "failed", "A is not set by the environ of the main process 1, expected 1"),
        ({"A": None}, {}, "passed", "A is not set"),
        ({"A": None}, {"A": ""}, "failed", "expected that it is not set"),
        ({"A": ""}, {"A": ""}, "passed", "A="),
        ({"A": "1"}, {"A": "1 "}, "failed", "expected 1"),
        ({}, {}, "passed", "no knobs to look for"),
        (dict.fromkeys("ABCDE", "1"), dict.fromkeys("ABCDE", "1"), "passed", "5 knobs in effect"),
    ],
)
def test_judgement(wanted, has, result, words):
    seen = {name: evidence.find(name, sources(whole("main process", **has)), None, "") for name in wanted}
    verdict = effective.judge(wanted, seen, True, {})
    assert verdict.result == result
    assert words in verdict.said


def test_a_wrong_knob_outweighs_a_hidden_one():
    hidden = evidence.Finding("B", UNKNOWN, None, "nobody knows")
    wrong = evidence.Finding("A", SET, "2", "main")
    right = evidence.Finding("A", SET, "1", "main")
    wanted = {"A": "1", "B": "1"}
    assert effective.judge(wanted, {"A": wrong, "B": hidden}, True, {}).result == "failed"
    verdict = effective.judge(wanted, {"A": right, "B": hidden}, True, {})
    assert verdict.result == "not-observable"
    assert verdict.said == "B cannot be seen: nobody knows"


def test_secrets_are_masked_everywhere():
    wanted = {"HF_TOKEN": "hunter2"}
    for has in ("hunter2", "hunter3"):
        seen = {
            "HF_TOKEN": evidence.find(
                "HF_TOKEN", sources(whole("main process", HF_TOKEN=has)), [{"HF_TOKEN": "hunter4"}], ""
            )
        }
        for named in (True, False):
            assert "hunter" not in repr(effective.judge(wanted, seen, named, {}))


def engine_look(run, look, **more):
    look.manager = run
    look.main = run.main
    for name, value in more.items():
        setattr(look, name, value)
    return look


def test_the_gate_on_a_pair_like_the_real_one(start, answers, target, look, recorded):
    """A registered name by env_vars, a fork's own name by the processes; the schedulers' environ is gone."""
    answers.paths["/server_info"] = (200, recorded("server_info_decode.json"))
    run = start(SGLANG_LOG_MS="1", **{KNOB: "512"})
    expectations = {KNOB: "512", "SGLANG_LOG_MS": "1", "SGLANG_TYPO": None}
    verdict = effective.check(target(), engine_look(run, look, expectations=expectations))
    assert verdict.result == "passed", verdict
    assert verdict.evidence["knobs"][KNOB]["evidence"].startswith("environ of the multiprocessing helper")
    wrong = effective.check(target(), engine_look(run, look, expectations={KNOB: "256"}))
    assert (wrong.result, wrong.evidence["knobs"][KNOB]["value"]) == ("failed", "512")


def test_the_gate_takes_its_expectations_from_the_serve_script(start, answers, target, look, tmp_path):
    script = tmp_path / "serve.sh"
    script.write_text(f"export {KNOB}=512\n# export OTHER=1\nexport UNKNOWN=$(date)\nexec sglang\n")
    answers.paths["/server_info"] = (404, "")
    run = start(**{KNOB: "512"})
    given = target(serve_script=str(script))
    verdict = effective.check(given, engine_look(run, look))
    assert verdict.result == "passed", verdict
    assert set(verdict.evidence["knobs"]) == {KNOB}
    assert verdict.evidence["expected_from"] == "serve script"
    assert "cannot be seen: /server_info answers 404" in verdict.said
    assert "script_changed_after_start_s" not in verdict.evidence
    later = time.time() + 60
    os.utime(script, (later, later))
    verdict = effective.check(given, engine_look(run, look))
    assert verdict.result == "passed"
    assert "its flags may not be in effect" in verdict.said
    assert verdict.evidence["script_changed_after_start_s"] > 50
    script.write_text(f"export {KNOB}=640\nexec sglang\n")
    assert effective.check(given, engine_look(run, look)).result == "failed"
    nothing = effective.check(target(), engine_look(run, look))
    assert nothing.result == "not-observable"


def test_the_gate_waits_for_schedulers_only_while_the_engine_loads(start, answers, target, look):
    run = start(children=0, title="", **{KNOB: "512"})
    expectations = {KNOB: "512"}
    assert effective.check(target(), engine_look(run, look, expectations=expectations)).result == "pending"
    loaded = engine_look(run, look, expectations=expectations, done=("unit", "health"))
    assert effective.check(target(), loaded).result == "not-observable"


def test_a_router_is_its_own_evidence(start, target, look):
    run = start(children=0, title="", **{KNOB: "512"})
    verdict = effective.check(target("router"), engine_look(run, look, expectations={KNOB: "512"}))
    assert verdict.result == "passed"
    assert verdict.evidence["knobs"][KNOB]["evidence"].startswith("environ of the main process")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, "x"), "is no JSON"),
        ((200, "[]"), "is no JSON"),
        ((200, {"internal_states": [{}]}), "SGLANG_EXPOSE_OWN_ENV_VARS=1"),
        ((200, {"internal_states": None}), "SGLANG_EXPOSE_OWN_ENV_VARS=1"),
        ((401, ""), "401: it wants an API key; set pd_api_key_file"),
        ((500, ""), "answers 500"),
    ],
)
def test_server_info_that_does_not_help(answers, answer, words):
    answers.paths["/server_info"] = answer
    seen, why = evidence.own_env_vars(answers.url, None, 2.0)
    assert seen is None
    assert words in why


def test_a_wedged_server_info_costs_a_limited_time(answers):
    answers.paths["/server_info"] = lambda _server: time.sleep(60) or (200, "")
    begin = time.monotonic()
    assert evidence.own_env_vars(answers.url, None, 0.4)[0] is None
    assert time.monotonic() - begin < 30


def test_observation_for_a_plan(start, answers):
    run = start(**{KNOB: "512", "HF_TOKEN": "hunter2"})
    status = SimpleNamespace(main=run.main)
    seen = effective.observe_knobs(run, "decode", status, answers.url, [KNOB, "OTHER", "HF_TOKEN"])
    assert seen[KNOB]["state"] == SET
    assert seen[KNOB]["value"] == "512"
    assert seen["OTHER"]["state"] == ABSENT
    assert "hunter2" not in json.dumps(seen)
    assert answers.asked == []  # the processes said all there was to say
    none = effective.observe_knobs(run, "decode", SimpleNamespace(main=None), answers.url, [KNOB])
    assert none == {KNOB: {"state": UNKNOWN, "value": None, "evidence": "no process"}}
