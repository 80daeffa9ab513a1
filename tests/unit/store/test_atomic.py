# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Replacing a file: what stays, what is refused, and that nothing is left behind."""

from __future__ import annotations

import errno
import os
import resource
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store import atomic

from .conftest import COLLECTIONS, NEW, OLD, as_user, in_own_mounts

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for other users")


def replace(path: Path, content: bytes = NEW, was: bytes = OLD) -> None:
    atomic.replace_file(str(path), content, atomic.sha256_of(was))


def leftovers(path: Path) -> list[str]:
    return atomic.find_leftovers(str(path.parent))


@contextmanager
def size_limit(most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_keeps_the_mode_and_leaves_nothing_behind(script: Path) -> None:
    replace(script)
    assert script.read_bytes() == NEW
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert os.listdir(script.parent) == ["decode.sh"]


def test_follows_a_symlink_and_keeps_it(script: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.sh"
    link.symlink_to(script)
    replace(link)
    assert link.is_symlink()
    assert script.read_bytes() == NEW
    assert os.listdir(script.parent) == ["decode.sh"]


def test_refuses_when_the_content_is_another(script: Path) -> None:
    with pytest.raises(PdopsError, match="changed by somebody else"):
        replace(script, was=b"something else")
    assert script.read_bytes() == OLD
    assert leftovers(script) == []


def test_a_name_of_the_greatest_length_is_no_trouble(script: Path) -> None:
    longest = script.with_name("ü" * 126 + ".sh")
    script.rename(longest)
    replace(longest)
    assert longest.read_bytes() == NEW
    leftover = atomic._write_temporary(str(longest), b"", 0o600)
    assert atomic.leftovers_of(str(longest)) == [leftover]


def test_keeps_user_attributes_and_the_access_list(script: Path) -> None:
    acl = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", *entry)
        for entry in ((1, 7, 0xFFFFFFFF), (2, 5, 1234), (4, 5, 0xFFFFFFFF), (16, 5, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF))
    )
    default = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", *entry)
        for entry in ((1, 7, 0xFFFFFFFF), (2, 7, 4321), (4, 5, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF))
    )
    twin = script.with_name("twin.sh")
    twin.write_bytes(OLD)
    try:
        os.setxattr(script, "user.note", b"kept")
        os.setxattr(script, "system.posix_acl_access", acl)
        os.setxattr(script.parent, "system.posix_acl_default", default)
    except OSError:
        pytest.skip("this file system has no attributes or access lists")
    replace(script)
    replace(twin)
    assert os.getxattr(script, "user.note") == b"kept"
    assert os.getxattr(script, "system.posix_acl_access") == acl
    # The folder's default list, which a new file inherits, is not the script's.
    assert os.listxattr(twin) == []
    assert stat.S_IMODE(twin.stat().st_mode) == 0o644


@needs_root
def test_keeps_another_owner_and_a_group_that_the_setgid_folder_would_change(script: Path) -> None:
    os.chown(script, 1234, 2345)
    script.parent.chmod(0o2755)
    os.chown(script.parent, 0, 3456)
    replace(script)
    assert (script.stat().st_uid, script.stat().st_gid) == (1234, 2345)
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


def test_refuses_hard_links(script: Path) -> None:
    os.link(script, script.parent / "twin.sh")
    with pytest.raises(PdopsError, match="2 hard links"):
        replace(script)
    assert script.read_bytes() == OLD


@needs_root
@pytest.mark.parametrize(
    ("arrange", "words"),
    [
        (lambda path: os.chown(path.parent, 0, 0), "this user may not write in"),
        (lambda path: os.chown(path.parent, 1234, 1234), "belongs to another user (uid 0)"),
        (lambda path: (os.chown(path.parent, 1234, 1234), os.chown(path, 1234, 2345)), "belongs to the group 2345"),
        (lambda path: (os.chmod(path.parent, 0o1777), os.chown(path, 0, 0)), "another user"),
    ],
)
def test_another_user_is_refused_in_one_sentence(
    public_folder: Path, arrange: Callable[[Path], object], words: str
) -> None:
    script = public_folder / "decode.sh"
    script.write_bytes(OLD)
    script.chmod(0o644)
    arrange(script)
    said = as_user(1234, lambda: replace(script))
    assert words in said
    assert "run with become" in said
    assert script.read_bytes() == OLD
    assert leftovers(script) == []


@needs_root
def test_the_owner_who_is_not_root_may(public_folder: Path) -> None:
    script = public_folder / "decode.sh"
    script.write_bytes(OLD)
    for path in (script, public_folder):
        os.chown(path, 1234, 1234)
    assert as_user(1234, lambda: replace(script)) == ""
    assert script.read_bytes() == NEW


@needs_root
@pytest.mark.parametrize("flag", ["i", "a"])
@pytest.mark.parametrize("which", ["script", "folder"])
def test_flags_that_forbid_it_are_found_before_anything_is_written(script: Path, flag: str, which: str) -> None:
    target = script if which == "script" else script.parent
    if subprocess.run(["chattr", f"+{flag}", target], capture_output=True).returncode != 0:
        pytest.skip("this file system has no such flags")
    try:
        with pytest.raises(PdopsError, match=f"chattr -{flag} {target} first"):
            replace(script)
        assert script.read_bytes() == OLD
        assert leftovers(script) == []
    finally:
        subprocess.run(["chattr", f"-{flag}", target], check=True)


def test_a_file_size_limit_is_one_sentence_and_nothing_is_left(script: Path) -> None:
    with size_limit(64), pytest.raises(PdopsError, match="file size limit"):
        replace(script, b"x" * 1000)
    assert script.read_bytes() == OLD
    assert leftovers(script) == []


def test_the_size_limit_does_not_kill_where_its_signal_has_the_default_action(script: Path) -> None:
    """Python ignores SIGXFSZ at its start; a program that restored it is killed by a write that is too long."""
    program = (
        "import resource, signal, sys; sys.path.insert(0, sys.argv[1]);"
        "from ansible_collections.pdops.sglang.plugins.module_utils.store import atomic;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64));"
        "atomic.replace_file(sys.argv[2], b'x' * 1000, atomic.sha256_of(open(sys.argv[2], 'rb').read()))"
    )
    done = subprocess.run([sys.executable, "-B", "-c", program, COLLECTIONS, script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "the file size limit of this process" in done.stderr
    assert script.read_bytes() == OLD


FULL = """
folder = sys.argv[1]
mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", folder)
script = os.path.join(folder, "decode.sh")
open(script, "wb").write(b"old")
filler = open(os.path.join(folder, "filler"), "wb", buffering=0)
try:
    while True:
        filler.write(b"x" * 4096)
except OSError:
    pass
print(said(lambda: atomic.replace_file(script, b"n" * 9000, atomic.sha256_of(b"old"))))
print(open(script).read(), sorted(os.listdir(folder)))
"""


def test_a_full_file_system_is_one_sentence_and_nothing_is_left(tmp_path: Path) -> None:
    sentence, rest = in_own_mounts(FULL, str(tmp_path)).splitlines()
    assert sentence.endswith("no space is left on its file system; free some, then run again; it is as it was.")
    assert rest == "old ['decode.sh', 'filler']"


READ_ONLY = """
folder = sys.argv[1]
mount("-t", "tmpfs", "tmpfs", folder)
script = os.path.join(folder, "decode.sh")
open(script, "wb").write(b"old")
mount("-o", "remount,ro", folder)
print(said(lambda: atomic.replace_file(script, b"new", atomic.sha256_of(b"old"))))
print(said(lambda: Store(os.path.join(folder, "state")).check_usable()))
"""


def test_a_read_only_file_system_is_one_sentence(tmp_path: Path) -> None:
    for sentence in in_own_mounts(READ_ONLY, str(tmp_path)).splitlines():
        assert "is read-only" in sentence


BIND = """
folder = sys.argv[1]
script, other = os.path.join(folder, "decode sh"), os.path.join(folder, "other")
for path in (script, other):
    open(path, "wb").write(b"old")
mount("--bind", other, script)
print(said(lambda: atomic.replace_file(script, b"new", atomic.sha256_of(b"old"))))
print(sorted(os.listdir(folder)))
"""


def test_a_file_that_is_mounted_by_itself_is_refused(tmp_path: Path) -> None:
    sentence, rest = in_own_mounts(BIND, str(tmp_path)).splitlines()
    assert "is mounted by itself (a bind mount)" in sentence
    assert rest == "['decode sh', 'other']"


def test_an_error_of_the_disk_after_the_rename_says_that_the_new_content_is_there(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(atomic, "sync_folder", broken)
    with pytest.raises(PdopsError, match="has the new content, but whether that survives") as refused:
        replace(script)
    assert refused.value.details == {"replaced": True}
    assert script.read_bytes() == NEW


def test_reads_regular_files_only(tmp_path: Path) -> None:
    def said(path: Path) -> str:
        with pytest.raises(PdopsError) as refused:
            atomic.read_regular(str(path), 10)
        return str(refused.value)

    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b"x" * 11)
    (tmp_path / "right").write_bytes(b"x" * 10)
    assert "does not exist; correct the path" in said(tmp_path / "none")
    assert "is a symlink to" in said(tmp_path / "nowhere")
    assert "symbolic links" in said(tmp_path / "loop")
    assert "no regular file" in said(tmp_path / "pipe")
    assert "no regular file" in said(tmp_path)
    assert "Not a directory" in said(tmp_path / "right" / "x")
    assert "has 11 bytes" in said(tmp_path / "long")
    assert "grows beyond 10 bytes" in said(Path("/proc/self/smaps"))  # files of /proc say that they have 0 bytes
    assert atomic.read_regular(str(tmp_path / "right"), 10) == b"x" * 10


def test_leftovers_are_told_from_other_files_and_only_old_ones_of_ours_are_removed(script: Path) -> None:
    def leave(name: str, age_s: float) -> str:
        path = script.with_name(name)
        path.write_bytes(b"")
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age_s))
        return str(path)

    mine = leave(".pdops-decode.sh-0123456789ab", 0)
    theirs = leave(".pdops-prefill.sh-0123456789ab", 0)
    leave(".pdops-notes", 0)
    leave(".pdops-decode.sh-0123456789ab.txt", 0)
    assert atomic.find_leftovers(str(script.parent)) == [mine, theirs]
    assert atomic.leftovers_of(str(script)) == [mine]
    assert atomic.remove_leftovers([mine, str(script)]) == []  # somebody may be writing it now
    assert atomic.remove_leftovers([mine, str(script)], older_than_s=0) == [mine]
    assert script.exists() and os.path.exists(theirs)


@pytest.mark.parametrize("torn", [b"", b'{"half": ', b"no object"])
def test_a_torn_line_is_closed_by_the_next_append(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n" + torn)
    size = atomic.append_line(str(path), b"two")
    assert path.read_bytes().splitlines() == [b"one", *([torn] if torn else []), b"two"]
    atomic.cut_to(str(path), size)
    assert path.read_bytes() == b"one\n" + torn


def test_an_append_that_fails_leaves_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n")
    with size_limit(10), pytest.raises(PdopsError, match="file size limit"):
        atomic.append_line(str(path), b"x" * 100)
    assert path.read_bytes() == b"one\n"
