# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store import atomic
from ansible_collections.pdops.sglang.plugins.module_utils.store.backups import find_backups
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

OLD, NEW = b"export A=1\n", b"export A=2\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "state"))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "serve" / "decode.sh"
    path.parent.mkdir()
    path.write_bytes(OLD)
    path.chmod(0o750)
    return path


def replace(path: Path, content: bytes = NEW, was: bytes = OLD) -> None:
    atomic.replace_file(str(path), content, atomic.sha256_of(was))


def leftovers(path: Path) -> list[str]:
    return atomic.find_leftovers(str(path.parent))


class TestReplace:
    def test_keeps_the_mode_and_leaves_nothing_behind(self, script: Path) -> None:
        replace(script)
        assert script.read_bytes() == NEW
        assert stat.S_IMODE(script.stat().st_mode) == 0o750
        assert os.listdir(script.parent) == ["decode.sh"]

    def test_follows_a_symlink_and_keeps_it(self, script: Path, tmp_path: Path) -> None:
        link = tmp_path / "link.sh"
        link.symlink_to(script)
        replace(link)
        assert link.is_symlink()
        assert script.read_bytes() == NEW

    def test_refuses_when_the_content_is_another(self, script: Path) -> None:
        with pytest.raises(PdopsError, match="changed by somebody else"):
            replace(script, was=b"something else")
        assert script.read_bytes() == OLD
        assert leftovers(script) == []

    def test_refuses_hard_links(self, script: Path) -> None:
        os.link(script, script.parent / "twin.sh")
        with pytest.raises(PdopsError, match="2 hard links"):
            replace(script)
        assert script.read_bytes() == OLD

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can keep another user's ownership")
    def test_keeps_another_owner_and_the_setgid_folders_group(self, script: Path) -> None:
        os.chown(script, 1234, 2345)
        script.parent.chmod(0o2755)
        os.chown(script.parent, 0, 3456)
        replace(script)
        assert (script.stat().st_uid, script.stat().st_gid) == (1234, 2345)
        assert stat.S_IMODE(script.stat().st_mode) == 0o750

    @pytest.mark.skipif(os.geteuid() != 0, reason="chattr needs root")
    def test_an_immutable_script_is_one_clear_sentence(self, script: Path) -> None:
        if subprocess.run(["chattr", "+i", script], capture_output=True).returncode != 0:
            pytest.skip("this file system has no immutable flag")
        try:
            with pytest.raises(PdopsError, match="lsattr"):
                replace(script)
            assert script.read_bytes() == OLD
            assert leftovers(script) == []
        finally:
            subprocess.run(["chattr", "-i", script], check=True)

    def test_keeps_extended_attributes(self, script: Path) -> None:
        try:
            os.setxattr(script, "user.note", b"kept")
        except OSError:
            pytest.skip("this file system has no user attributes")
        replace(script)
        assert os.getxattr(script, "user.note") == b"kept"

    def test_a_file_size_limit_is_one_sentence_and_nothing_is_left(self, script: Path) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
        try:
            with pytest.raises(PdopsError, match="file size limit"):
                replace(script, b"x" * 1000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert script.read_bytes() == OLD
        assert leftovers(script) == []

    def test_killed_at_any_system_call_it_leaves_old_or_new(self, script: Path) -> None:
        """A child dies at its n-th call into os; whatever n, the script is whole."""
        program = """
import os, sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.pdops.sglang.plugins.module_utils.store import atomic
count, fatal = 0, int(sys.argv[3])
def dying(real):
    def call(*args, **kwargs):
        global count
        count += 1
        if count == fatal:
            os._exit(9)
        return real(*args, **kwargs)
    return call
for name in ("open", "write", "fsync", "close", "replace", "chmod", "unlink", "stat", "listxattr"):
    setattr(os, name, dying(getattr(os, name)))
atomic.replace_file(sys.argv[2], b"export A=2\\n", atomic.sha256_of(b"export A=1\\n"))
"""
        collections = str(Path(__file__).resolve().parents[3] / "collections")
        seen = set()
        for fatal in range(1, 60):
            script.write_bytes(OLD)
            done = subprocess.run([sys.executable, "-c", program, collections, str(script), str(fatal)])
            assert script.read_bytes() in (OLD, NEW)
            seen.add(script.read_bytes())
            for path in leftovers(script):
                os.unlink(path)
            if done.returncode == 0:
                break
        assert done.returncode == 0
        assert seen == {OLD, NEW}


class TestVersions:
    def test_versions_come_newest_first_and_the_same_content_adds_none(self, store: Store, script: Path) -> None:
        for content, label in ((OLD, "one"), (NEW, "two"), (NEW, "again")):
            store.add_version(str(script), content, label, "alice", None)
        assert [item.label for item in store.versions(str(script))] == ["two", "one"]
        assert store.content(store.versions(str(script))[1].sha256) == OLD

    def test_objects_are_private(self, store: Store, script: Path) -> None:
        version = store.add_version(str(script), OLD, "one", "alice", None)
        path = Path(store.state_dir, "objects", version.sha256)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(Path(store.state_dir).stat().st_mode) == 0o700

    def test_a_version_is_found_by_prefix_label_and_previous(self, store: Store, script: Path) -> None:
        one = store.add_version(str(script), OLD, "one", "alice", None)
        two = store.add_version(str(script), NEW, "two", "alice", None)
        assert store.find_version(str(script), two.sha256[:6]) == two
        assert store.find_version(str(script), "one") == one
        with pytest.raises(PdopsError, match="has no previous version"):
            store.find_version(str(script), "previous")  # the script still has the first content
        script.write_bytes(NEW)
        assert store.find_version(str(script), "previous") == one
        script.write_bytes(b"by hand")
        assert store.find_version(str(script), "previous") == two
        with pytest.raises(PdopsError, match=r"three is no version of .*stored versions: .*\(two, .*\(one, "):
            store.find_version(str(script), "three")

    def test_a_damaged_object_is_found_and_a_new_put_heals_it(self, store: Store, script: Path) -> None:
        version = store.add_version(str(script), OLD, "one", "alice", None)
        Path(store.state_dir, "objects", version.sha256).write_bytes(b"x")
        with pytest.raises(PdopsError, match="is damaged"):
            store.content(version.sha256)
        store.put(OLD)
        assert store.content(version.sha256) == OLD

    def test_a_torn_line_harms_no_other(self, store: Store, script: Path) -> None:
        store.add_version(str(script), OLD, "one", "alice", None)
        (index,) = Path(store.state_dir, "files").iterdir()
        with index.open("ab") as target:
            target.write(b'{"path": "/x", "sha2')
        store.add_version(str(script), NEW, "two", "alice", None)
        assert [item.label for item in store.versions(str(script))] == ["two", "one"]

    def test_reading_an_absent_store_makes_nothing(self, store: Store, script: Path) -> None:
        assert store.versions(str(script)) == []
        assert store.journal() == []
        assert not os.path.exists(store.state_dir)


class TestUsable:
    def test_a_folder_open_to_others_is_refused(self, store: Store) -> None:
        os.makedirs(store.state_dir)
        os.chmod(store.state_dir, 0o755)
        with pytest.raises(PdopsError, match="chmod 700"):
            store.check_usable()

    def test_a_file_in_its_place_is_refused(self, store: Store) -> None:
        Path(store.state_dir).write_text("")
        with pytest.raises(PdopsError, match=r"cannot be made|is no folder"):
            store.check_usable()

    @pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
    def test_another_users_folder_is_refused(self, store: Store) -> None:
        os.makedirs(store.state_dir, mode=0o700)
        os.chown(store.state_dir, 1234, 1234)
        with pytest.raises(PdopsError, match="belongs to uid 1234"):
            store.check_usable()

    def test_no_room_is_found_before_any_effect(self, store: Store) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            with pytest.raises(PdopsError, match="file size limit"):
                store.check_usable()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert not os.path.exists(store.state_dir)

    def test_a_relative_path_is_refused(self) -> None:
        with pytest.raises(PdopsError, match="is not an absolute path"):
            Store("state")


class TestLock:
    def test_the_second_is_told_who_holds_it(self, store: Store) -> None:
        with (
            store.lock("a long verb"),
            pytest.raises(PdopsError, match=rf"process {os.getpid()} \(a long verb, since "),
        ):
            with Store(store.state_dir).lock("mine", wait_s=0.1):
                raise AssertionError("two at once")

    def test_a_killed_holder_frees_it(self, store: Store) -> None:
        store.prepare()
        program = (
            "import sys, os; sys.path.insert(0, sys.argv[1]);"
            "from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store;"
            "lock = Store(sys.argv[2]).lock('x'); lock.__enter__(); print('held', flush=True); input()"
        )
        collections = str(Path(__file__).resolve().parents[3] / "collections")
        with subprocess.Popen(
            [sys.executable, "-c", program, collections, store.state_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None and child.stdout.readline() == b"held\n"
            child.kill()
            child.wait()
            with store.lock("mine", wait_s=1):
                pass


def test_secrets_do_not_reach_the_journal(store: Store) -> None:
    store.write_journal({"verb": "edit", "knobs": {"HF_TOKEN": "hf_verysecret", "A": "1"}})
    assert "hf_verysecret" not in Path(store.state_dir, "journal.jsonl").read_text()
    assert store.journal()[0]["knobs"]["A"] == "1"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("decode.sh.bak", "bak"),
        ("decode.sh.pretgt_revert_2025.bak", "pretgt_revert_2025"),
        ("decode.sh.bak.before-512", "before-512"),
        ("decode.sh.bak-20251101", "20251101"),
        ("decode.sh.20251101", "20251101"),
        ("decode.sh.orig", "orig"),
        ("decode.sh.old", "old"),
        ("decode.sh~", "~"),
        ("decode.sh.~3~", "~3~"),
        ("decode.sh.4711.2025-11-01@10:11:12~", "2025-11-01@10:11:12"),
        ("decode.bak.sh", "bak"),
        ("decode_backup.sh", None),
        ("decode.sh.swp", None),
        ("prefill.sh.bak", None),
        (".pdops-decode.sh-0123", None),
    ],
)
def test_backups_are_known_by_their_names(script: Path, name: str, label: str | None) -> None:
    (script.parent / name).write_bytes(NEW)
    assert [item.label for item in find_backups(str(script))] == ([label] if label else [])


def test_backups_are_regular_files_of_a_sane_size_newest_first(script: Path) -> None:
    for age, name in enumerate(("decode.sh.new.bak", "decode.sh.old.bak")):
        (script.parent / name).write_bytes(NEW)
        os.utime(script.parent / name, (1e9 - age, 1e9 - age))
    (script.parent / "decode.sh.dir.bak").mkdir()
    os.mkfifo(script.parent / "decode.sh.fifo.bak")
    with (script.parent / "decode.sh.huge.bak").open("wb") as huge:
        huge.truncate(5 * 1024 * 1024)
    assert [item.label for item in find_backups(str(script))] == ["new", "old"]
