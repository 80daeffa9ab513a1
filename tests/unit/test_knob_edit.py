# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import errno
import os
import resource
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.knob_edit import (
    Applied,
    EditPlan,
    EditRequest,
    apply_edit,
    edit,
    masked_diff,
    plan_edit,
)
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store import atomic
from ansible_collections.pdops.sglang.plugins.module_utils.store.sources import sources_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

CASES = Path(__file__).parent / "scripts" / "cases"
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
LINE = f"export {KNOB}=512   # A/B: +12.8% at C64, +5.7% at C96\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "state"))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The field's decode script after the hurried revert, with the backup beside it."""
    path = tmp_path / "serve_dsv4_decode.sh"
    shutil.copy(CASES / "01_dsv4_decode.reverted.sh", path)
    shutil.copy(CASES / "01_dsv4_decode.sh", tmp_path / "serve_dsv4_decode.sh.pretgt_revert_2025.bak")
    return path


def run(script: Path, store: Store, **asked: Any) -> EditPlan:
    return apply_edit(plan_edit(EditRequest(path=str(script), **asked), store), store).plan


def untouched(script: Path, store: Store) -> bool:
    return script.read_bytes() == (CASES / "01_dsv4_decode.reverted.sh").read_bytes() and not os.path.exists(
        store.state_dir
    )


def test_restoring_out_of_the_backup_brings_back_that_one_line_byte_for_byte(script: Path, store: Store) -> None:
    plan = run(script, store, knobs={KNOB: None}, state="restored", from_backup="pretgt_revert_2025")
    assert script.read_bytes() == (CASES / "01_dsv4_decode.sh").read_bytes()
    assert plan.knobs == {KNOB: {"before": None, "after": "512"}}
    assert plan.other_lines == ()
    assert [item.label for item in store.versions(str(script))] == [f"restored {KNOB}", f"before restored {KNOB}"]
    assert store.content(store.versions(str(script))[1].sha256) == (CASES / "01_dsv4_decode.reverted.sh").read_bytes()


def test_without_a_source_the_best_one_is_found_and_named(script: Path, store: Store) -> None:
    plan = run(script, store, knobs={KNOB: None}, state="restored")
    assert plan.source is not None and plan.source["told"] == "backup serve_dsv4_decode.sh.pretgt_revert_2025.bak"
    assert not run(script, store, knobs={KNOB: None}, state="restored").changed


def test_a_backup_that_differs_in_two_lines_is_refused_with_both_shown(script: Path, store: Store) -> None:
    backup = script.with_name("serve_dsv4_decode.sh.pretgt_revert_2025.bak")
    backup.write_bytes(backup.read_bytes().replace(b"WAITING_TIMEOUT=120", b"WAITING_TIMEOUT=600"))
    with pytest.raises(PdopsError) as refused:
        run(script, store, knobs={KNOB: None}, state="restored", from_backup="pretgt_revert_2025")
    assert "was not touched" in str(refused.value)
    shown = [(line["sign"], line["text"].strip()) for line in refused.value.details["other_lines"]]
    assert shown == [
        ("-", "export SGLANG_DISAGGREGATION_WAITING_TIMEOUT=120"),
        ("+", "export SGLANG_DISAGGREGATION_WAITING_TIMEOUT=600"),
    ]
    assert untouched(script, store)
    # Unless told so.
    run(script, store, knobs={KNOB: None}, state="restored", from_backup="pretgt_revert_2025", expect_only=False)
    assert script.read_bytes() == backup.read_bytes()


def test_set_and_unset_are_idempotent_and_every_version_stays(script: Path, store: Store) -> None:
    first = script.read_bytes()
    assert run(script, store, knobs={KNOB: "512"}).changed
    assert not run(script, store, knobs={KNOB: "512"}).changed
    assert run(script, store, knobs={KNOB: "768"}).changed
    assert run(script, store, knobs={KNOB: None}).changed
    assert script.read_bytes() == first
    assert run(script, store, knobs={KNOB: "512"}, state="present").changed
    assert run(script, store, knobs={KNOB: None}, state="absent").changed
    contents = {store.content(item.sha256) for item in store.versions(str(script))}
    assert len(contents) == 3
    assert len(store.journal()) == 5


def test_a_version_is_restored_by_label_and_prefix(script: Path, store: Store) -> None:
    first = script.read_bytes()
    run(script, store, knobs={KNOB: "512"})
    sha = store.versions(str(script))[1].sha256
    run(script, store, knobs={KNOB: None}, state="restored", from_version=sha[:8])
    assert script.read_bytes() == first


@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_an_empty_script_is_refused_and_can_be_restored_as_a_whole(script: Path, store: Store, content: bytes) -> None:
    script.write_bytes(content)
    for state in ("present", "absent"):
        with pytest.raises(PdopsError, match=r"is empty \(\d bytes\), so it starts no engine"):
            run(script, store, knobs={KNOB: "512" if state == "present" else None}, state=state)
    assert script.read_bytes() == content and not Path(store.state_dir).exists()
    run(script, store, knobs={}, state="restored", from_backup="pretgt_revert_2025", expect_only=False)
    assert f"export {KNOB}=512" in script.read_text()
    # The emptiness is kept, as everything is, and is no source of anything.
    assert store.content(store.versions(str(script))[1].sha256) == content
    former = sources_of(str(script), store)
    assert all(source.content.strip() for source in former.found) and "is empty" in former.skipped[0]


def test_planning_writes_nothing(script: Path, store: Store) -> None:
    plan_edit(EditRequest(path=str(script), knobs={KNOB: "512"}), store)
    assert untouched(script, store)


def test_an_edit_by_hand_between_plan_and_apply_is_refused(script: Path, store: Store) -> None:
    plan = plan_edit(EditRequest(path=str(script), knobs={KNOB: "512"}), store)
    script.write_bytes(script.read_bytes() + b"# by hand\n")
    with pytest.raises(
        PdopsError, match=r"is not what it was .*somebody edited it in the meantime: \+22: # by hand; look at it"
    ):
        apply_edit(plan, store)
    assert script.read_bytes().endswith(b"# by hand\n")
    with pytest.raises(PdopsError, match="is not what it was"):
        run(script, store, knobs={KNOB: "512"}, expect_sha256=plan.sha256_before)


def test_secrets_are_masked_on_both_sides_and_refused_as_knobs(tmp_path: Path, store: Store) -> None:
    script = tmp_path / "08.sh"
    shutil.copy(CASES / "08_duplicate_and_secret.sh", script)
    plan = run(script, store, knobs={KNOB: "768"})
    shown = repr(masked_diff(plan)) + repr(plan.knobs) + repr(store.journal())
    assert "hf_example" not in shown and "not-a-real-key" not in shown
    assert b"hf_example" in script.read_bytes()
    with pytest.raises(PdopsError, match="HF_TOKEN"):
        run(script, store, knobs={"HF_TOKEN": "x"})


def test_a_result_that_is_no_valid_bash_is_not_written(tmp_path: Path, store: Store) -> None:
    script = tmp_path / "serve.sh"
    script.write_text("#!/bin/bash\nexport A=1\nexec python3 x\n")
    (tmp_path / "serve.sh.bak").write_text("#!/bin/bash\nexport A=1\nif true; then\nexec python3 x\n")
    with pytest.raises(PdopsError, match=r"is no valid bash, so it was not written: serve\.sh"):
        run(script, store, knobs={"A": None}, state="restored", from_backup="bak", expect_only=False)
    assert script.read_text() == "#!/bin/bash\nexport A=1\nexec python3 x\n"


def test_what_cannot_be_edited_safely_is_refused_naming_script_and_line(tmp_path: Path, store: Store) -> None:
    script = tmp_path / "broken.sh"
    script.write_text("#!/bin/bash\nexport A=1\nif true; then\nexec python3 x\n")
    with pytest.raises(PdopsError, match=r"broken.sh: .*line 3"):
        run(script, store, knobs={"A": "2"})
    assert "export A=1" in script.read_text()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"knobs": {}}, "no knob was named"),
        ({"knobs": {"1X": "1"}}, "1X"),
        ({"knobs": {KNOB: "1"}, "state": "absent"}, "takes no value"),
        ({"knobs": {KNOB: "1"}, "from_backup": "x"}, "belong to state=restored"),
        ({"knobs": {KNOB: None}, "state": "restored", "from_backup": "x", "from_version": "y"}, "give one of them"),
        (
            {"knobs": {KNOB: None}, "state": "restored", "from_backup": "nosuch"},
            "beside it lie: serve_dsv4_decode.sh.pretgt_revert_2025.bak",
        ),
        ({"knobs": {KNOB: None}, "state": "restored", "from_version": "abcdef"}, "stored versions: none"),
        (
            {"knobs": {KNOB: "768"}, "state": "restored", "from_backup": "pretgt_revert_2025"},
            f"has {KNOB}=512, not 768",
        ),
        ({"knobs": {"SGLANG_NOT_THERE": None}, "state": "restored"}, "no stored version and no backup"),
        ({"knobs": {KNOB: "1"}, "state": "gone"}, "must be present, absent or restored"),
    ],
)
def test_wrong_requests_are_one_sentence_and_touch_nothing(
    script: Path, store: Store, asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(PdopsError) as refused:
        run(script, store, **asked)
    assert words in str(refused.value)
    assert untouched(script, store)


def test_paths_that_are_no_script_are_refused(tmp_path: Path, store: Store) -> None:
    for path, words in (
        (tmp_path / "no.sh", "does not exist"),
        (tmp_path, "no regular file"),
        (Path("relative.sh"), "is not absolute"),
    ):
        with pytest.raises(PdopsError, match=words):
            run(path, store, knobs={KNOB: "1"})
    os.mkfifo(tmp_path / "pipe.sh")
    with pytest.raises(PdopsError, match="no regular file"):
        run(tmp_path / "pipe.sh", store, knobs={KNOB: "1"})
    (tmp_path / "huge.sh").write_bytes(b"#" * (4 * 1024 * 1024 + 1))
    with pytest.raises(PdopsError, match="too much for a script"):
        run(tmp_path / "huge.sh", store, knobs={KNOB: "1"})


def test_drift_is_refused_with_the_lines_and_with_who_did_it(script: Path, store: Store) -> None:
    first = plan_edit(EditRequest(path=str(script), knobs={KNOB: "512"}), store)
    done = apply_edit(first, store)
    assert done.version_before is not None and done.version_after is not None
    edit(EditRequest(path=str(script), knobs={KNOB: "768"}, actor="bob"), store, check_mode=False)
    with pytest.raises(PdopsError) as refused:
        run(script, store, knobs={KNOB: "1"}, expect_sha256=first.sha256_after)
    said = str(refused.value)
    assert "it is version" in said and "by bob" in said
    assert f"-12: export {KNOB}=512; +12: export {KNOB}=768" in said
    assert [line["sign"] for line in refused.value.details["drift_lines"]] == ["-", "+"]
    with pytest.raises(PdopsError, match="somebody edited it in the meantime; look at it") as refused:
        script.write_bytes(script.read_bytes() + b"# by hand\n")
        run(script, store, knobs={KNOB: "1"}, expect_sha256="0" * 64)
    assert "drift_lines" not in refused.value.details


def test_a_replacement_that_fails_leaves_no_version_behind(script: Path, store: Store) -> None:
    plan = plan_edit(EditRequest(path=str(script), knobs={KNOB: "512"}), store)
    store.prepare()
    content = plan.after + b"#" * 70000
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (69000, hard))
    try:
        with pytest.raises(PdopsError, match="file size limit"):
            apply_edit(replace(plan, after=content), store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert script.read_bytes() == plan.before
    assert [item.sha256 for item in store.versions(str(script))] in ([], [plan.sha256_before])
    assert store.journal() == []


def test_a_replacement_that_fails_at_the_last_moment_takes_its_version_back(
    script: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_edit(EditRequest(path=str(script), knobs={KNOB: "512"}), store)
    real = os.replace

    def failing(source: str, target: str) -> None:
        if target == str(script):
            raise OSError(errno.EPERM, "Operation not permitted")
        real(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(PdopsError, match=r"the system does not permit it .*; it is as it was"):
        apply_edit(plan, store)
    assert script.read_bytes() == plan.before
    assert [item.sha256 for item in store.versions(str(script))] == [plan.sha256_before]
    assert sorted(os.listdir(script.parent)) == [
        "serve_dsv4_decode.sh",
        "serve_dsv4_decode.sh.pretgt_revert_2025.bak",
        "state",
    ]
    assert store.journal() == []


def test_a_leftover_of_a_crash_is_told_and_removed_by_the_next_edit_when_it_is_old(
    script: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    leftover = script.with_name(f".pdops-{script.name}-0123456789ab")
    leftover.write_bytes(b"half")
    plan = plan_edit(EditRequest(path=str(script), knobs={KNOB: "512"}), store)
    assert any(str(leftover) in warning for warning in plan.warnings)
    apply_edit(plan, store)
    assert leftover.exists()  # somebody may be writing it now
    later = time.time() + 3600
    monkeypatch.setattr(atomic.time, "time", lambda: later)
    run(script, store, knobs={KNOB: "768"})
    assert not leftover.exists()
    assert store.journal()[-1]["removed_leftovers"] == [str(leftover)]


def test_the_journal_tells_the_edit(script: Path, store: Store) -> None:
    request = EditRequest(path=str(script), knobs={KNOB: "512"}, actor="alice", change_id="c1", label="ab-test")
    done = edit(request, store, check_mode=False)
    (entry,) = store.journal()
    assert {name: entry[name] for name in ("verb", "path", "state", "actor", "change_id", "label", "knobs")} == {
        "verb": "serve_knob",
        "path": str(script),
        "state": "present",
        "actor": "alice",
        "change_id": "c1",
        "label": "ab-test",
        "knobs": {KNOB: {"before": None, "after": "512"}},
    }
    assert (entry["sha256_before"], entry["sha256_after"]) == (done.plan.sha256_before, done.plan.sha256_after)
    newest, before = store.versions(str(script))
    assert (newest, before) == (done.version_after, done.version_before)
    assert (newest.label, newest.actor, newest.change_id) == ("ab-test", "alice", "c1")


def test_check_mode_says_the_same_and_writes_nothing(script: Path, store: Store) -> None:
    request = EditRequest(path=str(script), knobs={KNOB: "512"})
    looked = edit(request, store, check_mode=True)
    assert isinstance(looked, Applied) and looked.version_after is None
    assert untouched(script, store)
    assert edit(request, store, check_mode=False).plan == looked.plan
    os.chmod(store.state_dir, 0o755)
    for check_mode in (True, False):
        with pytest.raises(PdopsError, match="chmod 700"):
            edit(EditRequest(path=str(script), knobs={KNOB: "768"}), store, check_mode)


def test_what_could_not_be_replaced_is_refused_in_check_mode_too(script: Path, store: Store) -> None:
    os.link(script, script.with_name("twin"))
    with pytest.raises(PdopsError, match="hard links"):
        edit(EditRequest(path=str(script), knobs={KNOB: "512"}), store, check_mode=True)
    assert untouched(script, store)


def test_without_bash_nothing_is_written(script: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(os, "defpath", "/nowhere")
    with pytest.raises(PdopsError, match="bash is not installed here"):
        run(script, store, knobs={KNOB: "512"})
    assert untouched(script, store)


def test_warnings_are_those_that_touch_the_named_knobs(tmp_path: Path, store: Store) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(
        '#!/bin/bash\nexport AB=1\nexport AB=2\nexport A=1\n[ -n "$X" ] && export C=1\nexec python3 x\nexport A=3\n'
    )
    assert [warning.partition(": ")[2] for warning in run(script, store, knobs={"AB": "3"}).warnings] == [
        "AB is exported 2 times; the last one counts."
    ]
    (dead,) = run(script, store, knobs={"A": "3"}).warnings
    assert "line 7: A is exported where it has no effect" in dead


def test_a_comment_that_may_speak_of_the_old_value_is_told_and_kept(script: Path, store: Store) -> None:
    shutil.copy(CASES / "01_dsv4_decode.sh", script)
    plan = run(script, store, knobs={KNOB: "256"})
    assert LINE.replace("512", "256").encode() in script.read_bytes()
    assert [warning for warning in plan.warnings if "comment" in warning] == [
        f"{script} line 12: the comment behind {KNOB} is left as it is and may speak of the old value: "
        "# A/B: +12.8% at C64, +5.7% at C96"
    ]
    # Nothing changes, or the comment comes with the value, or there is none: nothing to warn of.
    assert not any("comment" in warning for warning in run(script, store, knobs={KNOB: "256"}).warnings)
    back = run(script, store, knobs={KNOB: "512"}, state="restored", from_backup="pretgt_revert_2025")
    assert back.changed and not any("comment" in warning for warning in back.warnings)
    assert not any("comment" in warning for warning in run(script, store, knobs={"SGLANG_NEW": "1"}).warnings)
