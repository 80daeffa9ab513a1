# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
# ruff: noqa: F811 (fixtures are imported, and named as arguments)
"""The module serve_version in process: every verb but prune, and what it must never do."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

from .versioned import CASES, KNOB, LABEL, Module, add, module, opened, script, snapshot, store, use  # noqa: F401 (fixtures)


def test_list_of_a_machine_that_never_saw_pdops_shows_the_backup_and_makes_nothing(
    module: Module, tmp_path: Path
) -> None:
    before = snapshot(tmp_path)
    code, answer = module("list")
    assert code == 0 and answer["changed"] is False and answer["versions"] == []
    backup = answer["backups"][0]
    assert (backup["label"], backup["imported"], backup["time"]) == (LABEL, False, "2023-11-14T22:13:20Z")
    assert backup["knobs"] == {KNOB: {"before": "512", "after": None}} and backup["other_lines"] == 0
    assert answer["script"]["stored"] is False
    assert snapshot(tmp_path) == before


def test_list_tells_what_each_version_changed_and_which_one_the_script_holds(
    module: Module, store: Store, script: Path
) -> None:
    shas = add(store, script, "1", "2", "3")
    use(store, script, shas[1])
    _, answer = module("list")
    assert [(row["label"], row["now"], row["actor"]) for row in answer["versions"]] == [
        ("3", False, "alice"),
        ("2", True, "alice"),
        ("1", False, "alice"),
    ]
    assert answer["versions"][0]["knobs"] == {KNOB: {"before": "2", "after": "3"}}
    assert answer["versions"][2]["knobs"][KNOB] == {"before": None, "after": "1"}
    # As after an edit by hand: the script differs from the newest version.
    assert answer["script"]["stored"] is True and answer["script"]["knobs"] == {KNOB: {"before": "3", "after": "2"}}


def test_list_of_one_knob_leaves_out_versions_in_which_it_did_not_change(
    module: Module, store: Store, script: Path
) -> None:
    add(store, script, "1", "2")
    text = store.content(store.versions(str(script))[0].sha256)
    store.add_version(
        str(script), text.replace(b"export NCCL", b"# a note\nexport NCCL", 1) + b"#\n", "other", "bob", None
    )
    _, answer = module("list", knob=KNOB)
    assert [row["label"] for row in answer["versions"]] == ["2", "1"] and answer["versions_total"] == 3
    _, answer = module("list", knob="NO_SUCH_KNOB")
    assert answer["versions"] == [] and answer["backups"] == []


def test_list_names_a_damaged_version_and_lists_the_rest(module: Module, store: Store, script: Path) -> None:
    shas = add(store, script, "1", "2", "3")
    Path(store.object_path(shas[1])).write_bytes(b"rot")
    with open(store.index_path(str(script)), "ab") as index:
        index.write(b'{"torn\n')
    _, answer = module("list")
    rows = {row["label"]: row for row in answer["versions"]}
    assert "is damaged" in rows["2"]["problem"] and rows["2"]["knobs"] is None
    assert rows["3"]["problem"] is None and rows["3"]["knobs"] is None  # what it changed cannot be told
    assert "line 4 of" in answer["passed_over"][0]


def test_list_of_a_script_that_is_gone_still_tells_its_past(module: Module, store: Store, script: Path) -> None:
    shas = add(store, script, "1")
    script.unlink()
    _, answer = module("list")
    assert "does not exist" in answer["script"]["problem"] and len(answer["versions"]) == 1
    code, answer = module("restore", version="1")
    assert code == 1 and store.object_path(shas[0]) in answer["msg"]


def test_show_by_each_name(module: Module, store: Store, script: Path) -> None:
    shas = add(store, script, "one", "two")
    backup = f"{script.name}.{LABEL}.bak"
    for wanted, value in (
        ("one", "one"),
        (shas[1][:8], "two"),
        ("previous", "two"),
        (LABEL, "512"),
        (backup, "512"),
        (str(script.with_name(backup)), "512"),
        ("now", None),
    ):
        code, answer = module("show", version=wanted)
        assert code == 0, answer
        assert answer["source"]["knobs"].get(KNOB) == value, wanted
        assert answer["source"]["content"].startswith("#!")
    for wanted in ("nosuch", shas[0][:5], ""):
        code, answer = module("show", version=wanted)
        assert code == 1 and "is no version and no backup" in answer["msg"] and backup in answer["msg"]


def test_a_name_of_two_contents_is_refused_and_of_one_content_is_not(
    module: Module, store: Store, script: Path
) -> None:
    backup = (CASES / "01_dsv4_decode.sh").read_bytes()
    version = store.add_version(str(script), backup, LABEL, "alice", None)
    assert module("show", version=LABEL)[1]["source"]["kind"] == "version"
    # The backup heals a damaged version of the same content.
    Path(store.object_path(version.sha256)).write_bytes(b"rot")
    assert module("show", version=LABEL)[1]["source"]["kind"] == "backup"
    store.add_version(str(script), backup + b"#\n", LABEL, "alice", None)
    code, answer = module("show", version=LABEL)
    assert code == 1 and "means several contents" in answer["msg"]


def test_diff_of_any_two(module: Module, store: Store, script: Path) -> None:
    shas = add(store, script, "1", "2")
    use(store, script, shas[1])
    _, answer = module("diff")
    assert answer["changed"] is False and answer["knobs"] == {KNOB: {"before": "1", "after": "2"}}
    assert [line["sign"] for line in answer["lines"]] == ["-", "+"] and answer["other_lines"] == 0
    assert any(line.startswith(f"+export {KNOB}=2") for line in answer["unified"])
    _, answer = module("diff", before=LABEL, after="1")
    assert answer["knobs"] == {KNOB: {"before": "512", "after": "1"}}
    assert answer["diff"]["before_header"] == f"backup {script.name}.{LABEL}.bak"
    _, answer = module("diff", before="now", after="now")
    assert answer["unified"] == [] and answer["knobs"] == {}


def test_import_takes_the_label_and_the_time_and_again_changes_nothing(
    module: Module, store: Store, script: Path, tmp_path: Path
) -> None:
    before = snapshot(tmp_path)
    _, looked = module("import", check=True)
    assert looked["changed"] is True and snapshot(tmp_path) == before
    _, answer = module("import", actor="alice")
    assert answer["changed"] is True and answer["imported"] == looked["imported"]
    version = store.versions(str(script))[0]
    assert (version.label, version.time, version.actor) == (LABEL, "2023-11-14T22:13:20Z", "alice")
    assert store.content(version.sha256) == (CASES / "01_dsv4_decode.sh").read_bytes()
    journal = store.journal()
    assert journal[-1]["verb"] == "import"
    assert script.with_name(f"{script.name}.{LABEL}.bak").exists()
    _, again = module("import")
    assert again["changed"] is False and again["imported"][0]["known"] is True
    assert store.journal() == journal and len(store.versions(str(script))) == 1
    assert module("list")[1]["backups"][0]["imported"] is True


def test_import_of_one_by_name_and_of_names_that_cannot_be_labels(module: Module, store: Store, script: Path) -> None:
    script.with_name(f"{script.name}.previous").write_bytes(b"export A=1\n")
    script.with_name(f"{script.name}.empty.bak").write_bytes(b"")
    future = script.with_name(f"{script.name}.future.bak")
    future.write_bytes(b"export A=2\n")
    os.utime(future, (9e9, 9e9))
    module("import", backups=[LABEL], label="mine")
    assert [item.label for item in store.versions(str(script))] == ["mine"]
    _, answer = module("import")
    assert {item["label"] for item in answer["imported"]} == {LABEL, f"{script.name}.previous", "future"}
    assert "is empty" in answer["passed_over"][0]
    assert all(item.time < "2100" for item in store.versions(str(script)))
    for given, words in (
        ({"backups": ["nosuch"]}, "is no backup of"),
        ({"backups": [f"{script.name}.empty.bak"]}, "is empty"),
        ({"label": "x"}, "for several backups"),
        ({"backups": [LABEL], "label": "now"}, "always means"),
    ):
        code, answer = module("import", **given)
        assert code == 1 and words in answer["msg"]


def test_restore_puts_the_whole_content_back_and_again_changes_nothing(
    module: Module, store: Store, script: Path, tmp_path: Path
) -> None:
    now = script.read_bytes()
    before = snapshot(tmp_path)
    _, looked = module("restore", version=LABEL, check=True, diff=True)
    assert looked["changed"] is True and snapshot(tmp_path) == before
    _, answer = module("restore", version=LABEL, diff=True, actor="alice")
    assert answer["changed"] is True and answer["diff"] == looked["diff"]
    assert script.read_bytes() == (CASES / "01_dsv4_decode.sh").read_bytes()
    assert script.stat().st_mode & 0o777 == 0o750
    assert answer["knobs"] == {KNOB: {"before": None, "after": "512"}}
    newest, old = store.versions(str(script))
    assert newest.label == f"restored backup {script.name}.{LABEL}.bak" and store.content(old.sha256) == now
    _, again = module("restore", version=LABEL)
    assert again["changed"] is False and "diff" not in again
    # And the way back, by its identity.
    _, back = module("restore", version=answer["sha256_before"], expect_sha256=answer["sha256_after"])
    assert back["changed"] is True and script.read_bytes() == now
    code, refused = module("restore", version=LABEL, expect_sha256=answer["sha256_after"])
    assert code == 1 and "is not what it was" in refused["msg"] and script.read_bytes() == now


def test_labels_of_restores_name_the_original_and_do_not_nest(module: Module, store: Store, script: Path) -> None:
    shas = add(store, script, "one", "two")
    use(store, script, shas[1])
    labels = []
    for turn in range(6):
        _, answer = module("restore", version=store.versions(str(script))[1].sha256)
        assert answer["changed"] is True and answer["sha256_after"] == shas[turn % 2]
        labels.append(store.versions(str(script))[0].label)
    times = {item.label: item.time for item in store.versions(str(script))}
    told = [f"restored version {sha[:12]} ({name}, {times[name]})" for sha, name in zip(shas, ("one", "two"))]
    assert labels == told * 3


def test_restore_refuses_what_would_not_start(module: Module, script: Path) -> None:
    now = script.read_bytes()
    script.with_name("empty.sh").write_bytes(b"\n")
    script.with_name("broken.sh").write_bytes(b"if true\n")
    for wanted, words in (("empty.sh", "is empty"), ("broken.sh", "no valid bash"), ("now", "holds already")):
        code, answer = module("restore", version=wanted)
        assert code == 1 and words in answer["msg"]
    assert script.read_bytes() == now


def test_restore_keeps_out_of_somebody_elses_change(module: Module, store: Store, script: Path) -> None:
    opened(store, script, "20261129T1-set-1", "open")
    code, answer = module("restore", version=LABEL)
    assert code == 1 and "in the hands of change 20261129T1-set-1" in answer["msg"]
    assert module("restore", version=LABEL, change_id="20261129T1-set-1")[1]["changed"] is True


def test_verify_tells_and_fails_only_when_asked(module: Module, store: Store, script: Path) -> None:
    # A mistyped folder must not look whole.
    assert [item["kind"] for item in module("verify")[1]["findings"]] == ["absent"]
    shas = add(store, script, "1", "2")
    assert module("verify", strict=True)[0] == 0
    Path(store.object_path(shas[0])).write_bytes(b"rot")
    os.unlink(store.index_path(str(script)))
    code, answer = module("verify")
    assert code == 0 and answer["ok"] is False
    assert {item["kind"] for item in answer["findings"]} == {"damaged", "unnamed"}
    code, answer = module("verify", strict=True)
    assert code == 1 and answer["ok"] is False and len(answer["findings"]) == 3
    strange = Path(store.state_dir, "changes", "x.json")
    store.write_state(str(strange), b"{}")
    assert str(strange) in {item["path"] for item in module("verify")[1]["findings"]}
    code, answer = module("prune", keep=1)
    assert code == 1 and str(strange) in answer["msg"]
    strange.unlink()
    # What was left without a name can be had again.
    _, answer = module("import", backups=[store.object_path(shas[1])], label="found again")
    assert answer["changed"] is True
    assert sorted(item["kind"] for item in module("verify")[1]["findings"]) == ["damaged", "unnamed"]


def test_no_secret_is_in_any_answer(module: Module, store: Store, script: Path, tmp_path: Path) -> None:
    shutil.copy(CASES / "08_duplicate_and_secret.sh", script)
    first = script.read_bytes()
    other = first.replace(b"hf_exampleexampleexample", b"hf_thisisanothertoken").replace(b"CTAS=512", b"CTAS=1")
    script.with_name(f"{script.name}.{LABEL}.bak").write_bytes(other)
    store.add_version(str(script), first, "first", "alice", None)
    store.add_version(str(script), other, "second", "alice", None)
    answers = [
        module("list"),
        module("list", knob="HF_TOKEN"),
        module("show", version="second"),
        module("show", version="now"),
        module("diff", before="first", after="second"),
        module("import"),
        module("restore", version=LABEL, check=True, diff=True),
        module("restore", version=LABEL, diff=True),
        module("prune", keep=1),
        module("verify"),
    ]
    assert [code for code, _ in answers] == [0] * len(answers)
    told = json.dumps(answers) + json.dumps(store.journal())
    for secret in ("hf_exampleexampleexample", "hf_thisisanothertoken", "not-a-real-key"):
        assert secret not in told
    # That it is another one is told all the same.
    assert answers[1][1]["versions"][0]["knobs"]["HF_TOKEN"] == {"before": "********", "after": "********"}
