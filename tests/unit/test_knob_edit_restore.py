# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Restoring: which source is taken, what is refused, and that secrets are compared though never shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.knob_edit import (
    Applied,
    EditRequest,
    edit,
    masked_diff,
    plan_edit,
)
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.reading import read_script
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

CASES = Path(__file__).parent / "scripts" / "cases"
CORPUS = Path(__file__).parent / "scripts" / "corpus"
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
SECRET = "hf_exampleexampleexample"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "state"))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script with secrets, and a backup that has the knob otherwise."""
    path = tmp_path / "serve.sh"
    content = (CASES / "08_duplicate_and_secret.sh").read_bytes()
    path.write_bytes(content)
    path.with_name("serve.sh.bak").write_bytes(content.replace(b"CTAS=512", b"CTAS=768"))
    return path


def do(script: Path, store: Store, check_mode: bool = False, **asked: Any) -> Applied:
    return edit(EditRequest(path=str(script), **asked), store, check_mode)


def refused(script: Path, store: Store, **asked: Any) -> PdopsError:
    before = script.read_bytes()
    with pytest.raises(PdopsError) as caught:
        do(script, store, **asked)
    assert script.read_bytes() == before
    assert not os.path.exists(store.state_dir)
    assert SECRET not in str(caught.value) + repr(caught.value.details)
    assert "\n" not in str(caught.value)
    return caught.value


class TestSecrets:
    def test_a_backup_with_another_secret_differs_in_more_than_the_knob(self, script: Path, store: Store) -> None:
        backup = script.with_name("serve.sh.bak")
        backup.write_bytes(backup.read_bytes().replace(SECRET.encode(), b"hf_thisisanothertoken"))
        error = refused(script, store, knobs={KNOB: None}, state="restored", from_backup="bak")
        assert error.details["other_lines"] == [
            {"sign": "-", "line": 3, "text": "export HF_TOKEN=********"},
            {"sign": "+", "line": 3, "text": "export HF_TOKEN=********"},
        ]
        assert "thisisanothertoken" not in str(error) + repr(error.details)
        done = do(script, store, knobs={KNOB: None}, state="restored", from_backup="bak", expect_only=False)
        assert done.plan.knobs["HF_TOKEN"] == {"before": "********", "after": "********"}
        shown = masked_diff(done.plan)
        assert "export HF_TOKEN=********\n" in shown["before"]
        assert "export HF_TOKEN=******** (another value)\n" in shown["after"]
        assert "thisisanothertoken" not in repr(shown) + repr(store.journal())

    def test_the_same_secret_on_a_line_that_moved_is_not_called_another(self, script: Path, store: Store) -> None:
        backup = script.with_name("serve.sh.bak")
        lines = backup.read_bytes().splitlines(keepends=True)
        backup.write_bytes(b"".join([lines[0], lines[2], lines[1], *lines[3:]]))
        done = do(script, store, check_mode=True, knobs={KNOB: None}, state="restored", expect_only=False)
        assert "another value" not in repr(masked_diff(done.plan))

    def test_a_knob_that_repeats_a_secret_is_masked_everywhere(self, script: Path, store: Store) -> None:
        script.write_bytes(script.read_bytes().replace(b"# tuned", f"export SGLANG_X={SECRET}\n# tuned".encode()))
        done = do(script, store, knobs={"SGLANG_X": "1"})
        assert done.plan.knobs == {"SGLANG_X": {"before": "********", "after": "1"}}
        assert SECRET not in repr(masked_diff(done.plan)) + repr(store.journal()) + repr(done.plan.warnings)

    def test_a_value_that_the_source_has_otherwise_is_not_given_away(self, script: Path, store: Store) -> None:
        backup = script.with_name("serve.sh.bak")
        backup.write_bytes(backup.read_bytes().replace(b"CTAS=768", b"CTAS=" + SECRET.encode()))
        error = refused(script, store, knobs={KNOB: "1"}, state="restored", from_backup="bak")
        assert f"has {KNOB}=********, not 1" in str(error)

    def test_what_bash_says_is_masked(self, script: Path, store: Store) -> None:
        backup = script.with_name("serve.sh.bak")
        backup.write_bytes(backup.read_bytes() + f"echo ) {SECRET}\n)){SECRET}\n".encode())
        error = refused(script, store, knobs={KNOB: None}, state="restored", from_backup="bak", expect_only=False)
        assert "is no valid bash" in str(error)


class TestSource:
    def test_without_one_the_newest_version_that_has_the_knob_comes_before_any_backup(
        self, script: Path, store: Store
    ) -> None:
        do(script, store, knobs={KNOB: "1024"})
        do(script, store, knobs={KNOB: None})
        done = do(script, store, knobs={KNOB: None}, state="restored")
        assert done.plan.knobs[KNOB] == {"before": None, "after": "1024"}
        assert done.plan.source is not None
        assert (done.plan.source["kind"], done.plan.source["label"]) == ("version", f"present {KNOB}")

    def test_a_second_run_changes_nothing_whatever_the_older_versions_have(self, script: Path, store: Store) -> None:
        for value in ("256", "1024", None):
            do(script, store, knobs={KNOB: value})
        assert do(script, store, knobs={KNOB: None}, state="restored").plan.changed
        there = len(store.versions(str(script))), len(store.journal())
        again = do(script, store, knobs={KNOB: None}, state="restored")
        assert not again.plan.changed
        assert again.plan.source is not None and again.plan.source["kind"] == "none"
        assert (len(store.versions(str(script))), len(store.journal())) == there

    def test_a_value_that_was_changed_by_hand_comes_back(self, script: Path, store: Store) -> None:
        do(script, store, knobs={KNOB: "1024"})
        script.write_bytes(script.read_bytes().replace(b"=1024", b"=1"))
        assert do(script, store, knobs={KNOB: None}, state="restored").plan.knobs[KNOB]["after"] == "1024"

    def test_a_wanted_value_chooses_the_source(self, script: Path, store: Store) -> None:
        do(script, store, knobs={KNOB: "1024"})
        done = do(script, store, knobs={KNOB: "768"}, state="restored")
        assert done.plan.source is not None and done.plan.source["told"] == "backup serve.sh.bak"
        assert not do(script, store, knobs={KNOB: "768"}, state="restored").plan.changed
        with pytest.raises(PdopsError, match=f"no stored version and no backup of .* has {KNOB}=5;"):
            do(script, store, knobs={KNOB: "5"}, state="restored")

    def test_a_damaged_version_is_passed_over_and_named(self, script: Path, store: Store) -> None:
        do(script, store, knobs={KNOB: "1024"})
        damaged = store.versions(str(script))[0].sha256
        do(script, store, knobs={KNOB: None})
        Path(store.object_path(damaged)).write_bytes(b"x")
        done = do(script, store, knobs={KNOB: None}, state="restored")
        assert done.plan.knobs[KNOB]["after"] == "512"
        assert any(damaged[:12] in warning for warning in done.plan.warnings)

    def test_previous_is_a_switch_back_and_forth(self, script: Path, store: Store) -> None:
        first = script.read_bytes()
        do(script, store, knobs={KNOB: "1024"})
        second = script.read_bytes()
        for expected in (first, second, first):
            do(script, store, knobs={KNOB: None}, state="restored", from_version="previous")
            assert script.read_bytes() == expected

    def test_several_knobs_come_from_one_source_that_has_them_all(self, script: Path, store: Store) -> None:
        backup = script.with_name("serve.sh.bak")
        backup.write_bytes(backup.read_bytes().replace(b"# tuned", b"export SGLANG_B=2\n# tuned"))
        error = refused(script, store, knobs={KNOB: None}, state="restored")
        assert [line["text"] for line in error.details["other_lines"]] == ["export SGLANG_B=2"]
        done = do(script, store, knobs={KNOB: None, "SGLANG_B": None}, state="restored")
        assert script.read_bytes() == backup.read_bytes()
        assert done.plan.knobs["SGLANG_B"] == {"before": None, "after": "2"}

    def test_without_knobs_a_named_source_is_taken_whole(self, script: Path, store: Store) -> None:
        do(script, store, knobs={}, state="restored", from_backup="bak", expect_only=False)
        assert script.read_bytes() == script.with_name("serve.sh.bak").read_bytes()


def test_another_knob_that_depends_on_the_named_one_counts_as_another_change(tmp_path: Path, store: Store) -> None:
    script = tmp_path / "serve.sh"
    script.write_text("#!/bin/bash\nA=1\nexport A\nexport B=x$A\nexec python3 x\n")
    (tmp_path / "serve.sh.bak").write_text("#!/bin/bash\nA=2\nexport A\nexport B=x$A\nexec python3 x\n")
    error = refused(script, store, knobs={"A": None}, state="restored")
    assert "differs in more than A: the value of B would change with it" in str(error)
    assert "set it (state=present, A=2; ansible-playbook set_knob.yml -e knob=A -e value=2)" in str(error)
    done = do(script, store, knobs={"A": None}, state="restored", expect_only=False)
    assert done.plan.knobs == {"A": {"before": "1", "after": "2"}, "B": {"before": "x1", "after": "x2"}}


def test_the_way_on_is_one_that_works(script: Path, store: Store) -> None:
    backup = script.with_name("serve.sh.bak")
    backup.write_bytes(b"#!/bin/bash\n" + b"exec python3 -m sglang.launch_server\n")
    error = refused(script, store, knobs={KNOB: None}, state="restored", from_backup="bak")
    assert f"unset it (state=absent, {KNOB};" in str(error)
    do(script, store, knobs={KNOB: None}, state="absent")
    assert read_script(script.read_bytes()).value(KNOB) is None


@pytest.mark.parametrize(
    "path", [*sorted(CASES.glob("*.sh")), *sorted(CORPUS.glob("*.sh"))[:12]], ids=lambda path: path.name
)
def test_each_knob_of_each_script_comes_back_byte_for_byte(path: Path, tmp_path: Path, store: Store) -> None:
    first = path.read_bytes()
    script = tmp_path / "serve.sh"
    (tmp_path / "serve.sh.first.bak").write_bytes(first)
    names = {export.name for export in read_script(first).exports} - {"PATH", "HF_TOKEN", "SGLANG_API_KEY"}
    for name in sorted({*names, KNOB}):
        for value in ("a b", None):
            script.write_bytes(first)
            try:
                plan = plan_edit(EditRequest(str(script), {name: value}), store)
            except PdopsError as error:
                assert "line " in str(error) and "expect_only" not in str(error)
                continue
            assert not plan.other_lines and set(plan.knobs) == {name}
            script.write_bytes(plan.after)
            back = plan_edit(EditRequest(str(script), {name: None}, "restored", from_backup="first"), store)
            assert back.after == first


class TestLinesOnly:
    def test_a_value_that_only_a_run_tells_comes_back_as_it_was_written(self, script: Path, store: Store) -> None:
        former = script.read_bytes().replace(b"CTAS=512", b"CTAS=$(nproc)  # per core")
        script.with_name("serve.sh.bak").write_bytes(former)
        script.write_bytes(script.read_bytes().replace(b"--port 30001", b"--port 30002"))
        asked = {"knobs": {KNOB: None}, "state": "restored", "from_backup": "bak"}
        error = refused(script, store, **asked)
        assert f"take its line alone (lines_only=true, export {KNOB}=$(nproc)  # per core)" in str(error)
        done = do(script, store, lines_only=True, **asked)
        assert script.read_bytes() == former.replace(b"--port 30001", b"--port 30002")
        assert done.plan.other_lines == () and done.plan.knobs == {KNOB: {"before": "512", "after": None}}
        assert not do(script, store, lines_only=True, **asked).plan.changed

    def test_the_newest_version_with_such_a_value_is_found(self, script: Path, store: Store) -> None:
        former = script.read_bytes().replace(b"CTAS=512", b"CTAS=${X:-8}")
        script.write_bytes(former)
        do(script, store, knobs={KNOB: "1024"})
        done = do(script, store, knobs={KNOB: None}, state="restored", from_version="previous")
        assert done.plan.changed and script.read_bytes() == former

    def test_a_former_line_that_means_another_thing_now_is_shown(self, script: Path, store: Store) -> None:
        former = script.read_bytes().replace(
            b"export SGLANG_SM120_MMA_TARGET_CTAS=512",
            b"N=$(nproc)\nexport SGLANG_SM120_MMA_TARGET_CTAS=$N$SGLANG_API_KEY",
        )
        script.with_name("serve.sh.bak").write_bytes(former)
        error = refused(script, store, knobs={KNOB: None}, state="restored", from_backup="bak", lines_only=True)
        assert f"line 7 of the former script: export {KNOB}=$N$SGLANG_API_KEY" in str(error)

    def test_it_belongs_to_restored(self, script: Path, store: Store) -> None:
        for asked in ({"knobs": {KNOB: "1"}}, {"knobs": {}, "state": "restored", "expect_only": False}):
            assert "lines_only belongs to" in str(refused(script, store, lines_only=True, **asked))
