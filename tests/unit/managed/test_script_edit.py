# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Putting a managed script in place: new, again, over another one, and what is refused with nothing touched."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.knob_edit import EditRequest, edit
from ansible_collections.pdops.sglang.plugins.module_utils.managed.knob_block import BEGIN, END
from ansible_collections.pdops.sglang.plugins.module_utils.managed.new_file import create_file
from ansible_collections.pdops.sglang.plugins.module_utils.managed.script_edit import (
    Placed,
    ScriptRequest,
    apply_script,
    masked_diff,
    parse_mode,
    place,
    plan_script,
)
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import sha256_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

from .rendering import base_of, launch, rendered

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
CASES = Path(__file__).resolve().parents[1] / "scripts" / "cases"
Put = Callable[..., Placed]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "state"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "serve"
    folder.mkdir()
    return folder / "serve_decode.sh"


@pytest.fixture
def put(path: Path, store: Store) -> Put:
    def run(knobs: dict[str, str] | None = None, check: bool = False, **given: Any) -> Placed:
        request = {"path": str(path), "base": base_of(launch("decode")), "knobs": knobs or {}, **given}
        return place(ScriptRequest(**request), store, check)

    return run


def untouched(path: Path, store: Store) -> tuple[Any, ...]:
    state = Path(store.state_dir)
    there = (path.read_bytes(), path.stat().st_mode, path.stat().st_ino) if path.exists() else None
    return there, sorted(path.parent.iterdir()), sorted(str(item) for item in state.rglob("*")), store.journal()


def test_a_new_script(put: Put, path: Path, store: Store) -> None:
    looked = put({KNOB: "512"}, check=True)
    assert looked.plan.changed and not path.exists() and not os.path.exists(store.state_dir)
    done = put({KNOB: "512"}, actor="erika", change_id="deploy-1")
    assert path.read_bytes() == rendered("decode", {KNOB: "512"}) == looked.plan.after
    assert path.stat().st_mode & 0o7777 == 0o750
    assert done.plan.sha256_before is None and done.version_before is None
    assert done.version_after is not None and done.version_after.sha256 == sha256_of(path.read_bytes())
    assert [item.label for item in store.versions(str(path))] == ["rendered"]
    entry = store.journal()[-1]
    assert (entry["verb"], entry["actor"], entry["change_id"], entry["mode"]) == (
        "serve_script",
        "erika",
        "deploy-1",
        "0750",
    )
    assert entry["knobs"][KNOB] == {"before": None, "after": "512"}
    assert masked_diff(done.plan)["before_header"].endswith("(absent)")
    assert list(path.parent.iterdir()) == [path]


def test_the_second_time_nothing_changes(put: Put, path: Path, store: Store) -> None:
    put({KNOB: "512"})
    before = untouched(path, store)
    done = put({KNOB: "512"})
    assert not done.plan.changed and untouched(path, store) == before


def test_a_change_of_knobs_and_of_the_fixed_part(put: Put, path: Path, store: Store) -> None:
    put({KNOB: "512", "SGLANG_LOG_MS": "1"})
    path.chmod(0o700)
    base = base_of(launch("decode", pd_arguments={"max-running-requests": 64}))
    done = put({KNOB: "640"}, base=base, label="deploy 7")
    assert path.read_bytes() == done.plan.after and path.stat().st_mode & 0o7777 == 0o700
    assert done.plan.knobs == {KNOB: {"before": "512", "after": "640"}, "SGLANG_LOG_MS": {"before": "1", "after": None}}
    assert [(line["sign"], line["text"]) for line in done.plan.other_lines] == [
        ("-", "  --max-running-requests 96 \\"),
        ("+", "  --max-running-requests 64 \\"),
    ]
    assert done.version_before is not None and store.content(done.version_before.sha256) == rendered(
        "decode", {KNOB: "512", "SGLANG_LOG_MS": "1"}
    )
    assert store.versions(str(path))[0].label == "deploy 7"
    assert done.plan.warnings == ()


def test_set_knob_and_a_rendering_meet(put: Put, path: Path, store: Store) -> None:
    put({KNOB: "512"})
    edit(EditRequest(path=str(path), knobs={KNOB: "640", "SGLANG_NEW": "it's"}), store, False)
    assert not put({KNOB: "640", "SGLANG_NEW": "it's"}).plan.changed


def test_an_adopted_script_becomes_managed_and_its_secrets_stay_hidden(put: Put, path: Path, store: Store) -> None:
    old = (CASES / "08_duplicate_and_secret.sh").read_bytes()
    path.write_bytes(old)
    done = put({KNOB: "512"})
    assert path.read_bytes() == rendered("decode", {KNOB: "512"})
    assert store.content(store.versions(str(path))[1].sha256) == old
    assert any("was not written from a template so far" in warning for warning in done.plan.warnings)
    said = f"{done.plan.knobs} {done.plan.other_lines} {masked_diff(done.plan)} {store.journal()}"
    assert "HF_TOKEN" in said
    for secret in ("hf_exampleexampleexample", "not-a-real-key"):
        assert secret.encode() in old and secret not in said


def test_an_edit_by_hand_is_warned_of_and_stored(put: Put, path: Path, store: Store) -> None:
    put()
    by_hand = path.read_bytes().replace(b"max-running-requests 96", b"max-running-requests 80")
    path.write_bytes(by_hand)
    done = put()
    assert any("edited outside pdops" in warning for warning in done.plan.warnings)
    assert by_hand in [store.content(item.sha256) for item in store.versions(str(path))]


def test_drift_is_refused_and_shown(put: Put, path: Path, store: Store) -> None:
    done = put({KNOB: "512"})
    path.write_bytes(path.read_bytes().replace(b"=512", b"=600"))
    before = untouched(path, store)
    for check in (True, False):
        with pytest.raises(PdopsError, match=r"is not what it was .*somebody edited it") as refused:
            put({KNOB: "640"}, check=check, expect_sha256=done.plan.sha256_after)
        assert [line["sign"] for line in refused.value.details["drift_lines"]] == ["-", "+"]
    with pytest.raises(PdopsError, match="was not expected to be"):
        put(expect_sha256="absent")
    assert untouched(path, store) == before
    path.unlink()
    with pytest.raises(PdopsError, match="is gone"):
        put(expect_sha256=done.plan.sha256_after)
    assert put(expect_sha256="absent").plan.changed


def test_an_edit_between_plan_and_apply_is_refused(put: Put, path: Path, store: Store) -> None:
    put()
    request = ScriptRequest(str(path), base_of(launch("decode")), {KNOB: "1"}, mode=0o700)
    plan = plan_script(request, store)
    path.write_bytes(path.read_bytes() + b"\n")
    before = untouched(path, store)
    with pytest.raises(PdopsError, match="is not what it was"):
        apply_script(plan, store)
    assert untouched(path, store) == before
    path.unlink()
    gone = plan_script(request, store)
    path.write_bytes(b"somebody's")
    with pytest.raises(PdopsError, match="came up in this moment"):
        apply_script(gone, store)
    assert path.read_bytes() == b"somebody's"


def test_a_file_is_never_made_over_another_one(path: Path) -> None:
    path.write_bytes(b"theirs")
    with pytest.raises(PdopsError, match="was made by somebody else in this moment"):
        create_file(str(path), b"ours", 0o750)
    assert path.read_bytes() == b"theirs" and list(path.parent.iterdir()) == [path]


def test_the_mode_alone(put: Put, path: Path, store: Store) -> None:
    put(mode=0o700)
    assert path.stat().st_mode & 0o7777 == 0o700
    assert not put(mode=0o700).plan.changed and not put().plan.changed
    done = put(mode=0o750)
    assert done.plan.changed and path.stat().st_mode & 0o7777 == 0o750 and done.version_after is None
    assert masked_diff(done.plan)["after_header"].endswith("mode 0750")
    assert store.journal()[-1]["mode"] == "0750"


def test_modes_are_octal_and_nobody_elses() -> None:
    assert parse_mode(None) is None and parse_mode("0750") == parse_mode("750") == 0o750
    for bad in ("0770", "0777", "0052", "rwx", "8", "1750", 488):
        with pytest.raises(PdopsError, match="mode"):
            parse_mode(bad)


def test_a_symlink_is_followed(put: Put, path: Path, tmp_path: Path) -> None:
    put()
    real = tmp_path / "real.sh"
    path.rename(real)
    path.symlink_to(real)
    assert put({KNOB: "512"}).plan.changed
    assert path.is_symlink() and real.read_bytes() == rendered("decode", {KNOB: "512"})
    real.unlink()
    with pytest.raises(PdopsError, match="a link that leads nowhere"):
        put()


def base_with(old: str, new: str) -> bytes:
    base = base_of(launch("decode"))
    assert old.encode() in base
    return base.replace(old.encode(), new.encode())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"base": base_with("exec python", "python")}, "would not end in exec"),
        ({"base": base_with("exec python", "if true; then exec python") + b"fi\n"}, "would not end in exec"),
        ({"base": base_with("set -euo pipefail", "if")}, "the rendered script cannot be read: line 4"),
        ({"base": base_with("set -euo pipefail", "[[ x =~ ( ]]")}, "is no valid bash, so it was not written"),
        ({"base": base_with("--enable-metrics", "--api-key sk-geheim")}, "would have a secret in line 23"),
        ({"base": base_with("--enable-metrics", "--x '{\"api_key\":\"geheim\"}'")}, "would have a secret in line 23"),
        ({"base": base_with("export SPT_NOENV=1", ": ${HF_TOKEN:=geheim}")}, "would have a secret in line 8 "),
        ({"base": base_with("export SPT_NOENV=1", "export SPT_NOENV=1\nexport HF_TOKEN=hf_geheim")}, "would have a secret in line 9 "),
        ({"base": base_with("export SPT_NOENV=1", "export SPT_NOENV=1\nexport HF_TOKEN=$X")}, "would export HF_TOKEN in line 9"),
        ({"base": b"#!/bin/bash\nexec python -m sglang.launch_server\n"}, "has no knob block"),
        ({"knobs": {KNOB: "a\nb"}}, "has a line end"),
        ({"knobs": {"A-B": "1"}}, "cannot be the name"),
        ({"path": "serve.sh"}, "is not absolute"),
        ({"expect_sha256": "123"}, "is neither a sha256"),
        ({"label": "x" * 121}, "label"),
        ({"path": "/nosuch/serve.sh"}, "there is no folder /nosuch"),
    ],
)  # fmt: skip
def test_what_is_not_fit_is_refused_and_nothing_is_touched(
    put: Put, path: Path, store: Store, given: Any, told: str
) -> None:
    for there in (False, True):
        if there:
            put({"SGLANG_A": "1"})
            if given.get("path") == "/nosuch/serve.sh":
                return
        before = untouched(path, store)
        for check in (True, False):
            with pytest.raises(PdopsError, match=told) as refused:
                put(check=check, **given)
            assert "geheim" not in str(refused.value) + str(refused.value.details)
            assert untouched(path, store) == before


def test_a_file_of_keys_must_be_private(put: Put, path: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    files = {"secret_files": (str(keys),)}
    assert any("is not there yet" in warning for warning in put(check=True, **files).plan.warnings)
    keys.write_text("api-key: x\n")
    keys.chmod(0o640)
    with pytest.raises(PdopsError, match=f"chmod 0600 {keys} first"):
        put(**files)
    assert not path.exists()
    keys.chmod(0o600)
    assert put(**files).plan.warnings == ()


def test_no_space_leaves_nothing_behind(put: Put, path: Path, store: Store) -> None:
    store.prepare()
    before = untouched(path, store)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
    try:
        with pytest.raises(PdopsError, match="file size limit"):
            put()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert untouched(path, store)[:2] == before[:2] and store.versions(str(path)) == [] and store.journal() == []


def test_a_folder_that_cannot_be_written_is_refused(put: Put, path: Path, store: Store) -> None:
    if os.geteuid() != 0 or subprocess.run(["chattr", "+i", path.parent], capture_output=True).returncode != 0:
        pytest.skip("chattr needs root and a file system that knows it")
    try:
        with pytest.raises(PdopsError):
            put()
        assert store.versions(str(path)) == []
    finally:
        subprocess.run(["chattr", "-i", path.parent], check=True)
    assert not path.exists()


@pytest.mark.parametrize("point", ["chmod", "rename", "unlink"])
def test_a_kill_while_a_script_is_made_leaves_it_whole_or_absent(
    put: Put, path: Path, store: Store, point: str
) -> None:
    child = os.fork()
    if child == 0:
        # SIGKILL right before this step, as the machine's power would end it.
        real = getattr(os, point)

        def killed(*given: Any, **more: Any) -> Any:
            if path.name in str(given):
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **more)

        setattr(os, point, killed)
        put({KNOB: "512"})
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert path.exists() is (point == "unlink")
    assert not path.exists() or path.read_bytes() == rendered("decode", {KNOB: "512"})
    done = put({KNOB: "512"})
    assert path.read_bytes() == rendered("decode", {KNOB: "512"}) and path.stat().st_mode & 0o7777 == 0o750
    assert [item.label for item in store.versions(str(path))] == ["rendered"]
    left = any("was left by a write that a crash cut short" in warning for warning in done.plan.warnings)
    assert left is (point != "unlink")
    assert put({KNOB: "640"}).plan.changed


def test_what_cannot_be_made_after_all_is_no_version(
    put: Put, store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.rename

    def full(source: str, target: str) -> None:
        if target == str(path):
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        real(source, target)

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(PdopsError, match="could not be made: the disk quota is used up"):
        put()
    assert store.versions(str(path)) == [] and list(path.parent.iterdir()) == [] and store.journal() == []


def test_a_block_is_written_anew_when_it_is_said(put: Put, path: Path) -> None:
    put({"SGLANG_B": "1", "SGLANG_A": "2"})
    path.write_bytes(path.read_bytes().replace(b"export SGLANG_B=1\n", b"ulimit -l unlimited\nexport SGLANG_B=1 # x\n"))
    with pytest.raises(PdopsError, match="keep_block=false"):
        put({"SGLANG_A": "2", "SGLANG_B": "1"})
    put({"SGLANG_A": "2", "SGLANG_B": "1"}, keep_block=False)
    assert path.read_bytes() == rendered("decode", {"SGLANG_A": "2", "SGLANG_B": "1"})


def test_thousands_of_knobs_are_planned_and_told_in_seconds(store: Store, tmp_path: Path) -> None:
    base = f"#!/bin/bash\n{BEGIN}\nexport SPT_NOENV=1\n{END}\nexec python -m sglang.launch_server\n".encode()
    wanted = {f"SGLANG_G{number % 40}_K{number}": f"a-longer-value-{number}" for number in range(3000)}
    began = time.process_time()
    plan = plan_script(ScriptRequest(path=str(tmp_path / "many.sh"), base=base, knobs=wanted), store)
    assert len(plan.knobs) == 3001 and plan.knobs["SGLANG_G0_K0"]["after"] == "a-longer-value-0"
    # With a look at the whole script for each of them it was minutes.
    assert time.process_time() - began < 20
