# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The module serve_knob: in process for what it answers, under the real ansible for what reaches it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from inspect import getsource
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args
from ansible_collections.pdops.sglang.plugins.module_utils.knob_edit import EditRequest, plan_edit
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from ansible_collections.pdops.sglang.plugins.modules import serve_knob

from .in_process import answer_of

ROOT = Path(__file__).resolve().parents[3]
CASES = ROOT / "tests" / "unit" / "scripts" / "cases"
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
SECRETS = ("hf_exampleexampleexample", "not-a-real-key")

# What -vvv shows; of itself the result has it only before ansible-core 2.21.
WITH_INVOCATION = {"_ansible_inject_invocation": True} if "_ansible_inject_invocation" in getsource(basic) else {}

Module = Callable[..., "tuple[int, dict[str, Any]]"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "serve_decode.sh"
    shutil.copy(CASES / "01_dsv4_decode.reverted.sh", path)
    shutil.copy(CASES / "01_dsv4_decode.sh", tmp_path / "serve_decode.sh.pretgt_revert_2025.bak")
    return path


@pytest.fixture
def module(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Module:
    def run(check: bool = False, diff: bool = False, **given: Any) -> tuple[int, dict[str, Any]]:
        arguments = {
            "path": str(script),
            "state_dir": str(tmp_path / "state"),
            "_ansible_check_mode": check,
            "_ansible_diff": diff,
            "_ansible_remote_tmp": str(tmp_path),
            **WITH_INVOCATION,
            **given,
        }
        code, answer, _text = answer_of(serve_knob.main, arguments, capsys)
        return code, answer

    return run


def test_it_restores_the_one_line_and_the_second_run_changes_nothing(module: Module, script: Path) -> None:
    code, first = module(knobs={KNOB: None}, state="restored", from_backup="pretgt_revert_2025", diff=True)
    assert code == 0 and first["changed"] is True
    assert script.read_bytes() == (CASES / "01_dsv4_decode.sh").read_bytes()
    assert first["knobs"] == {KNOB: {"before": None, "after": "512"}}
    assert first["source"]["kind"] == "backup"
    assert first["version_before"]["sha256"] == first["sha256_before"]
    assert first["version_after"]["sha256"] == first["sha256_after"]
    assert f"export {KNOB}=512" in first["diff"]["after"] and KNOB not in first["diff"]["before"]
    _, second = module(knobs={KNOB: None}, state="restored", from_backup="pretgt_revert_2025")
    assert second["changed"] is False and second["other_lines"] == []
    assert "version_after" not in second and "diff" not in second


def test_check_mode_answers_the_same_and_makes_nothing(module: Module, script: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    _, looked = module(knobs={KNOB: 512}, check=True)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    _, done = module(knobs={KNOB: 512})
    for name in ("changed", "knobs", "sha256_before", "sha256_after", "other_lines"):
        assert looked[name] == done[name]


def test_a_refusal_shows_the_other_lines_and_the_way_on(module: Module, script: Path, tmp_path: Path) -> None:
    backup = tmp_path / "serve_decode.sh.pretgt_revert_2025.bak"
    backup.write_bytes(backup.read_bytes().replace(b"WAITING_TIMEOUT=120", b"WAITING_TIMEOUT=600"))
    for check in (True, False):
        code, answer = module(knobs={KNOB: None}, state="restored", from_backup="pretgt_revert_2025", check=check)
        assert code == 1 and answer["failed"] is True
        assert [(line["sign"], line["line"]) for line in answer["other_lines"]] == [("-", 10), ("+", 10)]
        assert f"set it (state=present, {KNOB}=512; ansible-playbook set_knob.yml -e knob={KNOB} " in answer["msg"]
        assert "-e value=512)" in answer["msg"] and "expect_only=false" in answer["msg"]
        assert "diff" not in answer
    assert script.read_bytes() == (CASES / "01_dsv4_decode.reverted.sh").read_bytes()
    assert not (tmp_path / "state").exists()


def test_the_value_of_a_refused_secret_does_not_come_back(module: Module) -> None:
    code, answer = module(knobs={"HF_TOKEN": "hf_geheim", KNOB: 512, "SGLANG_X": "--api-key sk-verysecret"})
    assert code == 1 and "HF_TOKEN looks like a secret" in answer["msg"]
    assert "geheim" not in json.dumps(answer) and "verysecret" not in json.dumps(answer)
    # Nothing else is blotted out with it.
    assert answer["invocation"]["module_args"]["knobs"][KNOB] == 512


def test_no_secret_of_the_script_is_in_any_answer(module: Module, script: Path, tmp_path: Path) -> None:
    shutil.copy(CASES / "08_duplicate_and_secret.sh", script)
    (tmp_path / "serve_decode.sh.pretgt_revert_2025.bak").write_bytes(
        script.read_bytes().replace(SECRETS[0].encode(), b"hf_thisisanothertoken").replace(b"CTAS=512", b"CTAS=1")
    )
    answers = [
        module(knobs={KNOB: 768}, diff=True),
        module(knobs={KNOB: None}, state="restored", from_backup="pretgt_revert_2025", diff=True),
        module(knobs={KNOB: None}, state="restored", from_backup="pretgt_revert_2025", diff=True, expect_only=False),
        module(knobs={KNOB: None}, state="restored", from_version="previous", diff=True),
        module(knobs={KNOB: 5}, expect_sha256="0" * 64, diff=True),
    ]
    assert [code for code, _ in answers] == [0, 1, 0, 1, 1]
    for secret in (*SECRETS, "thisisanothertoken"):
        assert secret not in json.dumps(answers)
        assert secret not in (tmp_path / "state" / "journal.jsonl").read_text()


def test_warnings_name_the_lines(script: Path, tmp_path: Path) -> None:
    # Of the plan: how ansible-core delivers a module's warnings in process depends on what else was imported.
    shutil.copy(CASES / "08_duplicate_and_secret.sh", script)
    plan = plan_edit(EditRequest(path=str(script), knobs={KNOB: "768"}), Store(str(tmp_path / "state")))
    assert plan.warnings == (f"{script} line 6: {KNOB} is exported 2 times; the last one counts.",)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"knobs": {KNOB: True}}, "is the boolean true"),
        ({"knobs": {KNOB: 1.5}}, "is the number 1.5"),
        ({"knobs": {KNOB: [1]}}, "a list"),
        ({"knobs": {KNOB: {}}}, "a mapping"),
        ({"knobs": {KNOB: "a\nb"}}, "line end"),
        ({"knobs": {"SGLANG LOG": "1"}}, "'SGLANG LOG' cannot be the name of a knob"),
        ({"knobs": {"": "1"}}, "cannot be the name of a knob"),
        ({"knobs": {}}, "no knob was named"),
        ({}, "no knob was named"),
        ({"knobs": "x"}, "knobs"),
        ({"knobs": {KNOB: 1}, "path": "serve.sh"}, "not absolute"),
        ({"knobs": {KNOB: 1}, "path": "/nowhere/serve.sh"}, "does not exist"),
        ({"knobs": {KNOB: 1}, "state": "gone"}, "must be one of"),
        ({"knobs": {KNOB: 1}, "state": "absent"}, "takes no value"),
        ({"knobs": {KNOB: 1}, "from_version": "previous"}, "belong to state=restored"),
        ({"knobs": {KNOB: None}, "state": "restored", "from_version": "previous"}, "has no previous version"),
        ({"state": "restored", "expect_only": False}, "names neither a knob nor a source"),
        ({"knobs": {KNOB: 1}, "expect_sha256": "abc"}, "is no sha256"),
        ({"knobs": {KNOB: 1}, "label": "previous"}, "always means the version before"),
        ({"knobs": {KNOB: 1}, "state_dir": "state"}, "is not an absolute path"),
        ({"knobs": {KNOB: 1}, "state_dir": "/dev/null"}, "is no folder"),
        ({"knobs": {KNOB: 1}, "state_dir": "/dev/null/x"}, "is no folder"),
        ({"knobs": {KNOB: 1, "RANDOM": "5"}}, "bash computes this name itself"),
    ],
)
def test_wrong_input_is_one_sentence_before_anything_is_touched(
    module: Module, script: Path, tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    for check in (True, False):
        code, answer = module(check=check, **given)
        assert code == 1
        assert words in answer["msg"]
        assert "\n" not in answer["msg"] and "Traceback" not in json.dumps(answer)
    assert script.read_bytes() == (CASES / "01_dsv4_decode.reverted.sh").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["serve_decode.sh", "serve_decode.sh.pretgt_revert_2025.bak"]


def test_a_state_folder_that_shows_only_when_made_that_it_cannot_be_is_one_sentence(
    module: Module, script: Path
) -> None:
    code, answer = module(knobs={KNOB: 1}, state_dir="/proc/pdops")
    assert (code, "the state folder /proc/pdops cannot be made" in answer["msg"]) == (1, True)
    assert script.read_bytes() == (CASES / "01_dsv4_decode.reverted.sh").read_bytes()


def test_the_documentation_agrees_with_what_is_accepted() -> None:
    documented = yaml.safe_load(serve_knob.DOCUMENTATION)["options"]
    with patch_module_args({"path": "/x", "nosuch": 1}), pytest.raises(SystemExit):
        serve_knob.main()
    source = Path(serve_knob.__file__).read_text()
    for name, option in documented.items():
        assert f'"{name}": {{"type": "{option["type"]}"' in source
    examples = yaml.safe_load(serve_knob.EXAMPLES)
    assert all(set(task["pdops.sglang.serve_knob"]) <= set(documented) for task in examples)


PLAY = """
- hosts: localhost
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    template: {SGLANG_A: "{{ 1 + 1 }}", SGLANG_B: "{{ from_cli }}"}
  tasks:
    - name: YAML's own types, quoted or not
      pdops.sglang.serve_knob: &where
        path: "{{ folder }}/serve_decode.sh"
        state_dir: "{{ folder }}/state"
        knobs: {SGLANG_INT: 010, SGLANG_TEXT: "010", SGLANG_YES: "yes", SGLANG_DATE: 2025-11-01, SGLANG_NONE: null}
    - name: Tagged values out of templates and of the command line
      pdops.sglang.serve_knob:
        <<: *where
        knobs: "{{ template }}"
    - name: A bare yes
      pdops.sglang.serve_knob:
        <<: *where
        knobs: {SGLANG_A: yes}
      register: bare_yes
      failed_when: bare_yes is not failed or 'is the boolean true' not in bare_yes.msg
    - name: A bare 1.5
      pdops.sglang.serve_knob:
        <<: *where
        knobs: {SGLANG_A: 1.5}
      register: bare_float
      failed_when: bare_float is not failed or 'is the number 1.5' not in bare_float.msg
    - name: A secret
      pdops.sglang.serve_knob:
        <<: *where
        knobs: {HF_TOKEN: "{{ 'hf_' ~ 'geheim' }}"}
      register: secret
      failed_when: secret is not failed
    - name: As options in one string
      pdops.sglang.serve_knob: path={{ folder }}/serve_decode.sh state_dir={{ folder }}/state knobs="SGLANG_C=a,SGLANG_D=2"
    - name: Unset by an empty value
      pdops.sglang.serve_knob: path={{ folder }}/serve_decode.sh state_dir={{ folder }}/state state=absent knobs="SGLANG_C="
"""


def test_what_yaml_templates_and_the_command_line_make_of_values(script: Path, tmp_path: Path) -> None:
    shutil.copy(CASES / "08_duplicate_and_secret.sh", script)
    (tmp_path / "play.yml").write_text(PLAY)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "-c", "local", "-vvvv", "--diff"),
            *("-e", f"folder={tmp_path}", "-e", "from_cli=7", str(tmp_path / "play.yml")),
        ],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-4000:]
    exports = [
        line for line in script.read_text().splitlines() if line.startswith("export SGLANG_") and "KEY" not in line
    ]
    assert [line.removeprefix("export ") for line in exports if KNOB not in line] == [
        "SGLANG_INT=8",
        "SGLANG_TEXT=010",
        "SGLANG_YES=yes",
        "SGLANG_DATE=2025-11-01",
        "SGLANG_A=2",
        "SGLANG_B=7",
        "SGLANG_D=2",
    ]
    for secret in (*SECRETS, "hf_geheim"):
        assert secret not in said
    journal = [json.loads(line) for line in (tmp_path / "state" / "journal.jsonl").read_text().splitlines()]
    assert [entry["verb"] for entry in journal] == ["serve_knob"] * 4
