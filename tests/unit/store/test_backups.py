# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which files beside a script are former contents of it, and which one a person means."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import sha256_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.backups import find_backups, look_for_backups
from ansible_collections.pdops.sglang.plugins.module_utils.store.sources import from_backup, sources_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

from .conftest import NEW, OLD


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("decode.sh.bak", "bak"),
        ("decode.sh.BAK", "bak"),
        ("decode.sh.bak2", "2"),
        ("decode.sh.pretgt_revert_2025.bak", "pretgt_revert_2025"),
        ("decode.sh.bak.before-512", "before-512"),
        ("decode.sh.bak-20251101", "20251101"),
        ("decode.sh_backup", "backup"),
        ("decode.sh.20251101", "20251101"),
        ("decode.sh-2025-11-01T1200", "2025-11-01T1200"),
        ("decode.sh.orig", "orig"),
        ("decode.sh.old", "old"),
        ("decode.sh.previous", "previous"),
        ("decode.sh.saved_v2", "v2"),
        ("decode.sh.older", None),
        ("decode.sh.dpkg-old", "dpkg"),
        ("decode.sh.rpmsave", "rpmsave"),
        ("decode.sh~", "~"),
        ("decode.sh.~3~", "~3~"),
        ("decode.sh.4711.2025-11-01@10:11:12~", "2025-11-01@10:11:12"),
        ("decode.bak.sh", "bak"),
        ("decode_backup.sh", None),
        ("decode.sh.swp", None),
        ("decode.sh.new", None),
        ("decode.shell.bak", None),
        ("prefill.sh.bak", None),
        (".pdops-decode.sh-0123456789ab", None),
    ],
)
def test_backups_are_known_by_their_names(script: Path, name: str, label: str | None) -> None:
    (script.parent / name).write_bytes(NEW)
    assert [(item.label, item.sha256) for item in find_backups(str(script))] == (
        [(label, sha256_of(NEW))] if label else []
    )


def test_the_name_that_ansible_gives_a_backup_is_known(script: Path) -> None:
    """Made by the real backup_local of this ansible-core."""
    program = (
        "import json, sys; from ansible.module_utils import basic;"
        "from ansible.module_utils.testing import patch_module_args;"
        "patched = patch_module_args({}); patched.__enter__();"
        "print(basic.AnsibleModule({}).backup_local(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", program, script], capture_output=True, text=True, check=True)
    (backup,) = find_backups(str(script))
    assert backup.path == done.stdout.strip()
    assert backup.label[:2] == "20"


def test_regular_files_of_a_sane_size_newest_first_and_a_reason_for_the_rest(script: Path) -> None:
    for age, name in enumerate(("decode.sh.new.bak", "decode.sh.old.bak")):
        (script.parent / name).write_bytes(NEW)
        os.utime(script.parent / name, (1e9 - age, 1e9 - age))
    (script.parent / "decode.sh.dir.bak").mkdir()
    os.mkfifo(script.parent / "decode.sh.fifo.bak")
    (script.parent / "decode.sh.link.bak").symlink_to(script)
    with (script.parent / "decode.sh.huge.bak").open("wb") as huge:
        huge.truncate(5 * 1024 * 1024)
    look = look_for_backups(str(script))
    assert [item.label for item in look.found] == ["new", "old"]
    reasons = dict(zip(("dir", "fifo", "huge", "link"), look.skipped, strict=True))
    assert "no regular file" in reasons["dir"] and "no regular file" in reasons["fifo"]
    assert "too much for a script" in reasons["huge"]
    assert "is a symlink" in reasons["link"]


def test_backups_beside_the_link_and_beside_the_script_are_both_found_once(script: Path, tmp_path: Path) -> None:
    link = tmp_path / "decode.sh"
    link.symlink_to(script)
    (tmp_path / "decode.sh.one.bak").write_bytes(NEW)
    (script.parent / "decode.sh.two.bak").write_bytes(NEW)
    assert sorted(item.label for item in find_backups(str(link))) == ["one", "two"]
    script.with_name("decode2.sh").symlink_to(script)
    assert [item.label for item in find_backups(str(script.with_name("decode2.sh")))] == ["two"]


class TestNamed:
    @pytest.fixture(autouse=True)
    def backups(self, script: Path) -> None:
        for name in ("decode.sh.one.bak", "decode.sh.bak.one", "known_good"):
            (script.parent / name).write_bytes(NEW)
        (script.parent / "decode.sh.two.bak").write_bytes(b"two")
        (script.parent / "decode.sh.bak.two").write_bytes(b"another two")

    @pytest.mark.parametrize("wanted", ["decode.sh.one.bak", "one", "known_good"])
    def test_by_file_name_or_label(self, script: Path, wanted: str) -> None:
        assert from_backup(str(script), wanted).content == NEW

    def test_by_full_path(self, script: Path, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").write_bytes(b"from elsewhere")
        source = from_backup(str(script), str(tmp_path / "elsewhere"))
        assert (source.content, source.told) == (b"from elsewhere", "backup elsewhere")

    @pytest.mark.parametrize(
        ("wanted", "words"),
        [
            ("two", "two means several backups of"),
            ("three", "beside it lie: decode.sh."),
            ("decode.sh", "is the script itself"),
            ("sub/decode.sh.one.bak", "neither a full path nor the name of a file"),
            ("..", "no regular file"),
            ("/nowhere", "does not exist"),
        ],
    )
    def test_anything_else_is_one_sentence(self, script: Path, wanted: str, words: str) -> None:
        with pytest.raises(PdopsError) as refused:
            from_backup(str(script), wanted)
        assert words in str(refused.value)


def test_all_former_contents_versions_first_and_a_damaged_one_costs_only_itself(store: Store, script: Path) -> None:
    lost = store.add_version(str(script), OLD, "lost", "alice", None)
    store.add_version(str(script), NEW, "kept", "alice", None)
    os.unlink(store.object_path(lost.sha256))
    (script.parent / "decode.sh.one.bak").write_bytes(b"a backup")
    (script.parent / "decode.sh.link.bak").symlink_to(script)
    sources = sources_of(str(script), store)
    assert [(item.kind, item.label, item.content) for item in sources.found] == [
        ("version", "kept", NEW),
        ("backup", "one", b"a backup"),
    ]
    assert [lost.sha256[:12] in sources.skipped[0], "is a symlink" in sources.skipped[1]] == [True, True]
