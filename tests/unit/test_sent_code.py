# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
# ruff: noqa: F811 (a fixture is imported, and named as an argument)
"""The code of pdops comes to a machine once, is found again by what it is, and comes every time where it cannot be kept."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.action import pd_machine

from module_utils import sent_code
from tests.unit.test_bytecode import home  # noqa: F401 (a fixture)

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = sent_code.archive_of(str(ROOT / "module_utils"))
NAME = sent_code.name_of(ARCHIVE)
SENT = sent_code.to_send(ARCHIVE)
#: As the module does it, with what Ansible packs for it; what is told is what a test asks about.
PROGRAM = """
import importlib, json, os, pwd, shutil, sys
sys.path.insert(0, sys.argv[1])
home = sys.argv[2]
pwd.getpwuid = lambda uid: pwd.struct_passwd(("tester", "x", uid, 0, "", home, "/bin/sh"))
from packed.module_utils import sent_code
given = json.load(sys.stdin)
if not sent_code.attach(given["name"], given.get("sent")):
    print(json.dumps(sent_code.missing()))
    sys.exit()
if len(sys.argv) > 3:
    shutil.rmtree(os.path.join(home, ".cache"))
call = importlib.import_module("packed.module_utils.machine_calls.pd_change")
from packed.module_utils.change import agent, guard
loader = call.__spec__.loader
told = {"spec": sorted(call.INTERFACE["argument_spec"]), "file": call.__file__, "packed": len(agent.pack())}
print(json.dumps({**told, "source": len(loader.get_source(call.__name__))}))
"""


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """What Ansible sends: what ``library/pd_machine.py`` imports as it stands there, and nothing else."""
    (tmp_path / "call").mkdir()
    path = tmp_path / "call" / "packed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("__init__.py", "module_utils/__init__.py"):
            archive.writestr(f"packed/{name}", "")
        for name in ("bytecode", "sent_code"):
            archive.write(ROOT / "module_utils" / f"{name}.py", f"packed/module_utils/{name}.py")
    return path


def call(packed: Path, home: Path, *options: str, more: tuple[str, ...] = (), **given: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, *options, "-c", PROGRAM, str(packed), str(home), *more],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def kept(home: Path) -> list[Path]:
    return sorted((home / ".cache").rglob("*.zip"))


def test_same_sources_have_the_same_name_and_others_another(tmp_path: Path) -> None:
    copy = tmp_path / "module_utils"
    shutil.copytree(ROOT / "module_utils", copy)
    assert sent_code.name_of(sent_code.archive_of(str(copy))) == NAME
    (copy / ".#plan.py").symlink_to("somebody@workstation.12")
    assert sent_code.name_of(sent_code.archive_of(str(copy))) == NAME
    with (copy / "plan.py").open("a") as source:
        source.write("\n")
    assert sent_code.name_of(sent_code.archive_of(str(copy))) != NAME


def test_the_code_is_asked_for_once_and_used_from_then_on(packed: Path, home: Path) -> None:
    assert call(packed, home, name=NAME) == {"changed": False, "code_missing": True, "code_kept": True}
    first = call(packed, home, name=NAME, sent=SENT)
    assert "change_id" in first["spec"] and first["packed"] > 50_000
    (file,) = kept(home)
    assert file.name == f"{NAME}.zip" and file.stat().st_mode & 0o777 == 0o600
    assert call(packed, home, name=NAME) == first
    assert sorted(path.name for path in packed.parent.iterdir()) == ["packed.zip"]


def test_what_is_kept_may_go_at_any_time(packed: Path, home: Path) -> None:
    first = call(packed, home, name=NAME, sent=SENT)
    assert call(packed, home, more=("gone",), name=NAME) == first
    assert not (home / ".cache").exists()
    assert call(packed, home, more=("gone",), name=NAME, sent=SENT) == first


def test_what_is_damaged_is_missing_and_comes_anew(packed: Path, home: Path) -> None:
    call(packed, home, name=NAME, sent=SENT)
    (file,) = kept(home)
    content = file.read_bytes()
    for wrong in (content[:-100], content.replace(b"def ", b"dEf ", 1), b""):
        file.write_bytes(wrong)
        assert call(packed, home, name=NAME)["code_missing"] is True
        assert "spec" in call(packed, home, name=NAME, sent=SENT)
        assert file.read_bytes() == content


@pytest.mark.parametrize("part", [".cache", ".cache/pdops", ".cache/pdops/bytecode"])
def test_where_others_can_write_nothing_is_used_or_kept_and_the_call_works(packed: Path, home: Path, part: str) -> None:
    call(packed, home, name=NAME, sent=SENT)
    (home / part).chmod(0o777)
    assert call(packed, home, name=NAME) == {"changed": False, "code_missing": True, "code_kept": False}
    (file,) = kept(home)
    os.utime(file, (1, 1))
    answer = call(packed, home, name=NAME, sent=SENT)
    assert "spec" in answer and file.stat().st_mtime == 1


def test_a_file_that_others_can_write_is_not_used(packed: Path, home: Path) -> None:
    call(packed, home, name=NAME, sent=SENT)
    (file,) = kept(home)
    file.chmod(0o666)
    assert call(packed, home, name=NAME)["code_missing"] is True


def test_without_a_home_or_where_nothing_is_to_be_written_each_call_works_with_what_came(
    packed: Path, home: Path, tmp_path: Path
) -> None:
    for options, where in (((), tmp_path / "none"), (("-B",), home)):
        assert call(packed, where, *options, name=NAME) == {
            "changed": False,
            "code_missing": True,
            "code_kept": False,
        }
        answer = call(packed, where, *options, name=NAME, sent=SENT)
        assert "spec" in answer and kept(where) == []
        assert sorted(path.name for path in packed.parent.iterdir()) == ["packed.zip"]


def test_what_came_is_not_run_when_it_is_not_what_its_name_says(packed: Path, home: Path) -> None:
    with pytest.raises(AssertionError, match="is not 0000"):
        call(packed, home, name="0" * 64, sent=SENT)
    assert kept(home) == []


class Machine:
    """Stands for the machine and all that Ansible does to reach it: keeps what it was sent, and answers with its arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keeps: bool) -> None:
        self.keeps, self.known, self.calls, self.full = keeps, False, 0, False

        def execute(action: Any, **named: Any) -> dict[str, Any]:
            return self.execute(action, **named)

        def configure(_action: Any, module_name: str, module_args: dict[str, Any], task_vars: Any) -> Any:
            return module_name, module_args

        monkeypatch.setattr(pd_machine.C, "DEFAULT_LOCAL_TMP", str(tmp_path))
        monkeypatch.setattr(pd_machine.ActionBase, "_execute_module", execute)
        monkeypatch.setattr(pd_machine.ActionBase, "_configure_module", configure)

    def execute(self, action: Any, module_name: str, module_args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        self.calls += 1
        packed, given = action._configure_module(module_name, module_args, task_vars)
        code = given.pop("_pdops_code", {})
        if packed == pd_machine.PACKED_AS and not self.known and "sent" not in code:
            return {"changed": False, "code_missing": True, "code_kept": self.keeps}
        self.known = self.keeps and not self.full
        return {"changed": False, "packed": packed, "given": given, "name": code.get("name")}


def ask(host: str, module: str = "pdops.sglang.pd_info") -> dict[str, Any]:
    action = pd_machine.ActionModule(SimpleNamespace(delegate_to=host, async_val=0), None, None, None, None, None)
    result: dict[str, Any] = action._execute_module(module_name=module, module_args={"verb": "verify"}, task_vars={})
    return result


def test_an_action_sends_the_code_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch, tmp_path, keeps=True)
    wanted = {"changed": False, "packed": "pdops.sglang.pd_machine", "given": {"verb": "verify"}, "name": NAME}
    assert [ask("one"), machine.calls] == [wanted, 2]
    assert [ask("one"), machine.calls] == [wanted, 3]


def test_a_machine_that_keeps_nothing_is_asked_once_in_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch, tmp_path, keeps=False)
    assert [ask("one")["given"], machine.calls] == [{"verb": "verify"}, 2]
    assert [ask("one")["given"], machine.calls] == [{"verb": "verify"}, 3]
    assert [ask("other")["given"], machine.calls] == [{"verb": "verify"}, 5]


def test_a_machine_that_would_keep_it_and_cannot_is_asked_twice_in_a_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, tmp_path, keeps=True)
    machine.full = True
    assert [(ask("one")["given"], machine.calls) for _time in range(3)] == [
        ({"verb": "verify"}, calls) for calls in (2, 4, 5)
    ]


def test_a_module_of_others_goes_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Machine(monkeypatch, tmp_path, keeps=True)
    assert ask("one", "ansible.builtin.ping")["packed"] == "ansible.builtin.ping"


def test_the_modules_that_go_as_one_are_those_with_a_call_and_their_actions_know() -> None:
    calls = {path.stem for path in (ROOT / "module_utils" / "machine_calls").glob("pd_*.py")}
    assert calls == pd_machine.TOGETHER
    for name in calls:
        action = importlib.import_module(f"ansible_collections.pdops.sglang.plugins.action.{name}").ActionModule
        assert issubclass(action, pd_machine.OneModule), name
    text = (ROOT / "library" / "pd_machine.py").read_text()
    assert [name for name in calls if f"M(pdops.sglang.{name})" not in text] == []
