# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Versions, the journal, the state folder and its lock."""

from __future__ import annotations

import json
import os
import re
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store import store as store_module
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from ansible_collections.pdops.sglang.plugins.module_utils.store.versions import found

from .conftest import COLLECTIONS, NEW, OLD, as_user, in_own_mounts

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for other users")


class TestVersions:
    def test_they_come_newest_first_and_the_same_content_adds_none(self, store: Store, script: Path) -> None:
        for content, label in ((OLD, "one"), (NEW, "two"), (NEW, "again")):
            store.add_version(str(script), content, label, "alice", None)
        assert [item.label for item in store.versions(str(script))] == ["two", "one"]
        assert store.content(store.versions(str(script))[1].sha256) == OLD

    def test_a_file_has_one_history_by_whatever_link_it_is_named(
        self, store: Store, script: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "link.sh").symlink_to(script)
        version = store.add_version(str(tmp_path / "link.sh"), OLD, "one", "alice", None)
        assert store.versions(str(script)) == [version]
        assert version.path == str(script)

    def test_everything_is_private_whatever_the_umask_is(self, store: Store, script: Path) -> None:
        before = os.umask(0)
        try:
            store.add_version(str(script), OLD, "one", "alice", None)
            store.write_journal({"verb": "x"})
        finally:
            os.umask(before)
        for folder, _, files in os.walk(store.state_dir):
            assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
            for name in files:
                assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600

    def test_one_is_found_by_prefix_label_and_previous(self, store: Store, script: Path) -> None:
        one = store.add_version(str(script), OLD, "one", "alice", None)
        two = store.add_version(str(script), NEW, "two", "alice", None)
        for wanted in (two.sha256, two.sha256[:6], two.sha256[:9].upper(), "two"):
            assert store.find_version(str(script), wanted) == two
        with pytest.raises(PdopsError, match=r"three is no version of .*stored versions: .*\(two, .*\(one, "):
            store.find_version(str(script), "three")
        with pytest.raises(PdopsError, match="at least 6 digits"):
            store.find_version(str(script), one.sha256[:5])

    def test_previous_is_what_was_before_the_present_content(self, store: Store, script: Path) -> None:
        one = store.add_version(str(script), OLD, "one", "alice", None)
        two = store.add_version(str(script), NEW, "two", "alice", None)
        with pytest.raises(PdopsError, match="has no previous version"):
            store.find_version(str(script), "previous")  # the script still has the first content
        script.write_bytes(NEW)
        assert store.find_version(str(script), "previous") == one
        script.write_bytes(b"by hand")
        assert store.find_version(str(script), "previous") == two

    def test_what_means_several_contents_is_refused_with_a_list(self, store: Store, script: Path) -> None:
        for content in (OLD, NEW):
            store.add_version(str(script), content, "same", "alice", None)
        with pytest.raises(PdopsError, match=r"same means several versions .*\(same, .*\(same, .*give the sha256"):
            store.find_version(str(script), "same")
        # One content twice is one content.
        store.add_version(str(script), OLD, "third", "alice", None)
        assert found(store.versions(str(script)), "x", store.versions(str(script))[0].sha256[:8], None).label == "third"

    def test_an_imported_backup_takes_its_place_by_its_own_time(self, store: Store, script: Path) -> None:
        store.add_version(str(script), NEW, "latest", "alice", None)
        for _ in range(2):
            store.add_version(str(script), OLD, "pretgt_revert_2025", "alice", None, time_s=1.7e9)
        assert [(item.label, item.time) for item in store.versions(str(script))][1:] == [
            ("pretgt_revert_2025", "2023-11-14T22:13:20Z")
        ]

    def test_a_clock_that_was_set_back_does_not_reorder(
        self, store: Store, script: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.add_version(str(script), OLD, "first", "alice", None)
        monkeypatch.setattr(store_module, "_utc", lambda seconds=None: "1970-01-01T00:00:09Z")
        store.add_version(str(script), NEW, "second", "alice", None)
        assert [item.label for item in store.versions(str(script))] == ["second", "first"]

    def test_a_damaged_object_is_found_and_a_new_put_heals_it(self, store: Store, script: Path) -> None:
        version = store.add_version(str(script), OLD, "one", "alice", None)
        Path(store.object_path(version.sha256)).write_bytes(b"x")
        with pytest.raises(PdopsError, match="is damaged"):
            store.content(version.sha256)
        store.put(OLD)
        assert store.content(version.sha256) == OLD
        os.unlink(store.object_path(version.sha256))
        with pytest.raises(PdopsError, match="cannot be read"):
            store.content(version.sha256)

    @pytest.mark.parametrize(
        "line",
        [
            b'{"path": "/x", "sha2',
            b"\xff\xfe\x00",
            b"[1]",
            b'{"sha256": 5}',
            b'{"path": 1, "sha256": "00", "label": 2}',
        ],
    )
    def test_a_torn_or_foreign_line_harms_no_other(self, store: Store, script: Path, line: bytes) -> None:
        store.add_version(str(script), OLD, "one", "alice", None)
        with open(store.index_path(str(script)), "ab") as target:
            target.write(line)
        store.add_version(str(script), NEW, "two", "alice", None)
        assert [item.label for item in store.versions(str(script))] == ["two", "one"]

    def test_fields_of_a_later_pdops_are_passed_over(self, store: Store, script: Path) -> None:
        store.add_version(str(script), OLD, "one", "alice", None)
        index = Path(store.index_path(str(script)))
        index.write_text(json.dumps({**json.loads(index.read_text()), "signed_by": "x"}) + "\n")
        assert [item.label for item in store.versions(str(script))] == ["one"]

    def test_only_the_newest_version_can_be_taken_back(self, store: Store, script: Path) -> None:
        one = store.add_version(str(script), OLD, "one", "alice", None)
        two = store.add_version(str(script), NEW, "two", "alice", None)
        store.forget_newest(one)
        assert store.versions(str(script)) == [two, one]
        store.forget_newest(two)
        assert store.versions(str(script)) == [one]

    @pytest.mark.parametrize("label", ["previous", "a\nb", "x" * 121])
    def test_labels_that_could_not_be_found_again_are_refused(self, store: Store, script: Path, label: str) -> None:
        with pytest.raises(PdopsError, match=r"the label"):
            store.add_version(str(script), OLD, label, "alice", None)

    def test_reading_an_absent_store_makes_nothing(self, store: Store, script: Path) -> None:
        assert store.versions(str(script)) == []
        assert store.journal() == []
        store.check_usable()
        assert not os.path.exists(store.state_dir)


class TestUsable:
    def refused(self, store: Store) -> str:
        with pytest.raises(PdopsError) as looked:
            store.check_usable()
        with pytest.raises(PdopsError) as tried:
            store.write_journal({"verb": "x"})
        assert str(looked.value) == str(tried.value)
        assert "\n" not in str(tried.value)
        return str(tried.value)

    def test_a_folder_open_to_others_is_refused(self, store: Store) -> None:
        for mode in (0o755, 0o770, 0o701):
            os.makedirs(store.state_dir, exist_ok=True)
            os.chmod(store.state_dir, mode)
            assert "chmod 700" in self.refused(store)

    @pytest.mark.parametrize(
        ("arrange", "words"),
        [
            (lambda path: path.write_text(""), "is no folder; move it away"),
            (lambda path: path.symlink_to("/nowhere/at/all"), "leads nowhere"),
            (lambda path: path.symlink_to(path), "leads nowhere"),
            (lambda path: (path.mkdir(0o700), (path / "objects").write_text("")), "objects in the state folder is no"),
        ],
    )
    def test_what_is_no_folder_is_refused(self, store: Store, arrange: Callable[[Path], object], words: str) -> None:
        arrange(Path(store.state_dir))
        assert words in self.refused(store)

    def test_a_folder_below_a_file_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        assert "is no folder" in self.refused(Store(str(tmp_path / "file")))
        for below in ("file/state", "file/a/b"):
            with pytest.raises(PdopsError, match=r"is no folder|cannot be"):
                Store(str(tmp_path / below)).check_usable()

    def test_a_symlink_of_ours_is_followed(self, store: Store, tmp_path: Path) -> None:
        (tmp_path / "big-disk").mkdir(0o700)
        os.symlink(tmp_path / "big-disk", store.state_dir)
        store.write_journal({"verb": "x"})
        assert (tmp_path / "big-disk" / "journal.jsonl").exists()

    @needs_root
    def test_another_users_folder_and_symlink_are_refused(self, store: Store, tmp_path: Path) -> None:
        os.makedirs(store.state_dir, mode=0o700)
        os.chown(store.state_dir, 1234, 1234)
        assert "belongs to uid 1234" in self.refused(store)
        os.symlink(store.state_dir, tmp_path / "link")
        os.lchown(tmp_path / "link", 1234, 1234)
        assert "symlink of another user" in self.refused(Store(str(tmp_path / "link")))

    @needs_root
    def test_a_user_who_may_not_make_it_is_told(self, public_folder: Path) -> None:
        store = Store(str(public_folder / "a" / "state"))
        assert "this user may not write in" in as_user(1234, store.check_usable)
        os.makedirs(store.state_dir, mode=0o700)
        os.chmod(public_folder / "a", 0o700)
        assert "cannot be looked at" in as_user(1234, store.check_usable)
        os.chmod(public_folder / "a", 0o755)
        assert "belongs to uid 0, not to this user (uid 1234)" in as_user(1234, store.check_usable)
        assert "run as the user who owns it" in as_user(1234, lambda: store.versions("/x.sh"))

    def test_a_small_size_limit_is_found_before_any_effect(self, store: Store) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            assert "file size limit" in self.refused(store)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert not os.path.exists(store.state_dir)

    def test_a_full_file_system_is_found_before_any_effect(self, tmp_path: Path) -> None:
        said = in_own_mounts(
            """
folder = sys.argv[1]
mount("-t", "tmpfs", "-o", "size=128k", "tmpfs", folder)
store = Store(os.path.join(folder, "state"))
store.write_journal({"verb": "x"})
with open(os.path.join(folder, "filler"), "wb", buffering=0) as filler:
    try:
        while True:
            filler.write(b"x" * 4096)
    except OSError:
        pass
for work in (store.check_usable, lambda: Store(store.state_dir).write_journal({"verb": "y"}), lambda: store.put(b"z" * 9000)):
    print(said(work))
print(len(store.journal()), os.listdir(os.path.join(store.state_dir, "objects")))
""",
            str(tmp_path),
        ).splitlines()
        assert all("no space is left" in sentence for sentence in said[:3]), said
        assert said[3:] == ["1 []"]

    def test_a_relative_path_is_refused(self) -> None:
        with pytest.raises(PdopsError, match="is not an absolute path"):
            Store("state")


class TestLock:
    def test_the_second_is_told_who_holds_it(self, store: Store) -> None:
        with (
            store.lock("a long verb"),
            pytest.raises(PdopsError, match=rf"process {os.getpid()} \(a long verb, since 2.*Z\) holds the lock"),
        ):
            with Store(store.state_dir).lock("mine", wait_s=0.1):
                raise AssertionError("two at once")

    def test_the_note_of_a_former_holder_accuses_nobody(self, store: Store) -> None:
        store.prepare()
        path = os.path.join(store.state_dir, "lock")
        child = subprocess.Popen(["flock", "-x", path, "sh", "-c", "echo held; exec sleep 60"], stdout=subprocess.PIPE)
        try:
            assert child.stdout is not None and child.stdout.readline() == b"held\n"
            gone = subprocess.Popen(["true"])
            gone.wait()
            for note in (b"", b"{", b'{"pid": %d, "purpose": "x", "since": "y"}' % gone.pid):
                Path(path).write_bytes(note)
                with pytest.raises(PdopsError, match=r"^another process holds the lock"):
                    with store.lock("mine", wait_s=0.1):
                        pass
        finally:
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()

    def test_a_killed_holder_frees_it(self, store: Store) -> None:
        store.prepare()
        program = (
            "import sys; sys.path.insert(0, sys.argv[1]);"
            "from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store;"
            "lock = Store(sys.argv[2]).lock('x'); lock.__enter__(); print('held', flush=True); input()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program, COLLECTIONS, store.state_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None and child.stdout.readline() == b"held\n"
            child.kill()
            child.wait()
            with store.lock("mine", wait_s=1):
                pass

    def test_it_is_free_again_after_a_failure_inside(self, store: Store) -> None:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError), store.lock("x", wait_s=0.1), store.lock("within it"):
                _ = 1 / 0


class TestJournal:
    def test_an_entry_has_time_boot_and_process(self, store: Store) -> None:
        store.write_journal({"verb": "serve_knob", "path": "/caf\udce9.sh"})
        (entry,) = store.journal()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["at"])
        assert entry["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert (entry["pid"], entry["path"]) == (os.getpid(), "/caf\udce9.sh")

    def test_the_newest_come_last(self, store: Store) -> None:
        for number in range(3):
            store.write_journal({"verb": str(number)})
        assert [entry["verb"] for entry in store.journal(2)] == ["1", "2"]
        assert store.journal(0) == []
        assert len(store.journal(9)) == 3

    def test_secrets_do_not_reach_it(self, store: Store) -> None:
        store.write_journal(
            {
                "verb": "x",
                "knobs": {
                    "HF_TOKEN": "hf_verysecret",
                    "API_KEY": {"before": "hf_verysecret", "after": None},
                    "OPENAI_API_KEY": ["hf_verysecret"],
                    "A": "1",
                },
            }
        )
        assert "hf_verysecret" not in Path(store.journal_path).read_text()
        assert store.journal()[0]["knobs"]["A"] == "1"
        assert store.journal()[0]["knobs"]["API_KEY"] == {"before": "********", "after": None}
