# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a deploy would write, how it is staged, applied and put back; systemctl is a script that notes its calls."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import contents, rollback, survey, verbs, who
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book, now_utc
from ansible_collections.pdops.sglang.plugins.module_utils.change.inheriting import inherit
from ansible_collections.pdops.sglang.plugins.module_utils.change.undoing import edit_back, unit_edits_back
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.managed import new_file
from ansible_collections.pdops.sglang.plugins.module_utils.managed.comparing import Comparison
from ansible_collections.pdops.sglang.plugins.module_utils.managed.knob_block import BEGIN, END
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.services import systemd as running
from ansible_collections.pdops.sglang.plugins.module_utils.serving.edits import Item, Key, Offer, offer, stage
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import ABSENT
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

Calls = Callable[[], list[str]]
SCRIPT = f"#!/bin/bash\n{BEGIN}\nexport SPT_NOENV=1\n{END}\nexec python -m engine\n".encode()
UNIT = b"[Service]\nExecStart=/bin/bash /x\n"


class Machine:
    """One instance on a machine, and the change that leads it somewhere."""

    def __init__(self, folder: Path) -> None:
        self.script, self.unit = folder / "srv" / "serve.sh", folder / "system" / "sglang-d.service"
        self.key = folder / "etc" / "keys.yaml"
        for path in (self.script, self.unit, self.key):
            path.parent.mkdir()
        self.store = Store(str(folder / "state"))
        self.instance = Instance("d", "decode", "sglang-d", str(self.script), "http://127.0.0.1:1", "m")

    def item(
        self, knobs: dict[str, str] | None = None, unit: bytes = UNIT, key: bytes | None = None, **comparison: Any
    ) -> Item:
        user = pwd.getpwuid(os.geteuid()).pw_name
        return Item(
            self.instance,
            SCRIPT,
            {"A": "1"} if knobs is None else knobs,
            Comparison(**comparison),
            unit=unit,
            unit_path=str(self.unit),
            keys=() if key is None else (Key(str(self.key), user, key),),
        )

    def offer(self, item: Item | None = None, existed: bool = False) -> Offer:
        return offer(item or self.item(), self.store, existed)

    def apply(self, found: Offer, change_id: str = "change-1") -> Book:
        """As the verbs do, without a guard."""
        assert found.refused is None, found.refused
        stage({"d": found}, {edit["path"]: edit["sha256_after"] for edit in found.edits}, self.store)
        book = Book(self.store)
        files = [contents.file_of(edit) for edit in found.edits]
        leader = who.this_process("alice")
        instances = [{**self.instance.as_dict(), "manager": "supervisor"}]
        book.begin(
            rules.new_record(change_id, "dsv4", "deploy", "a test", leader, files, instances, 60, now_utc()), None
        )
        with self.store.lock("test"):
            for edit in found.edits:
                contents.write_content(edit, book.load(change_id), self.store)
        contents.make_units_known(found.edits)
        return book

    def deployed(self) -> Book:
        book = self.apply(self.offer())
        book.confirm("change-1", "done")
        return book

    def there(self) -> tuple[bytes | None, bytes | None]:
        return tuple(path.read_bytes() if path.exists() else None for path in (self.script, self.unit))  # type: ignore[return-value]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_on_a_bare_machine_both_files_are_offered_and_nothing_is_written(machine: Machine, systemd: Calls) -> None:
    machine.script.parent.rmdir()  # made later, with the other folders
    found = machine.offer()
    assert found.refused is None
    assert [(edit["kind"], edit["sha256_before"], edit["existed"]) for edit in found.edits] == [
        ("script", ABSENT, False),
        ("unit", ABSENT, False),
    ]
    assert found.edits[0]["expect"] == {"A": "1"} and dict(found.intended) == {"A": "1"}
    assert machine.there() == (None, None) and not Path(machine.store.state_dir).exists()
    assert systemd() == ["analyze"]


def test_applied_and_applied_again(machine: Machine, systemd: Calls) -> None:
    machine.deployed()
    script, unit = machine.there()
    assert script is not None and b"export A=1" in script and unit == UNIT
    assert machine.script.stat().st_mode & 0o777 == 0o750 and machine.unit.stat().st_mode & 0o777 == 0o644
    assert [call for call in systemd() if "able" in call or "reload" in call][-2:] == [
        "daemon-reload",
        "--no-reload enable sglang-d.service",
    ]
    again = machine.offer(machine.item(confirmed={"A": "1"}, change_id="change-1"), existed=True)
    assert again.edits == () and again.refused is None
    assert [row["verb"] for row in machine.store.journal()].count("deploy") == 2


def test_a_unit_that_does_not_start_at_boot_is_enabled(machine: Machine, systemd: Calls, tmp_path: Path) -> None:
    machine.deployed()
    (tmp_path / "bin" / "enabled" / "sglang-d.service").unlink()
    found = machine.offer(machine.item(confirmed={"A": "1"}, change_id="change-1"), existed=True)
    (edit,) = found.edits
    assert edit["sha256_before"] == edit["sha256_after"] and edit["enabled_before"] is False
    book = machine.apply(found, "change-2")
    assert systemd()[-1] == "--no-reload enable sglang-d.service"
    rollback.restore_files(book, book.load("change-2"))
    assert not (tmp_path / "bin" / "enabled" / "sglang-d.service").exists()


def test_what_was_not_there_is_gone_after_a_rollback_and_kept_as_a_version(machine: Machine, systemd: Calls) -> None:
    book = machine.apply(machine.offer())
    record = book.load("change-1")
    assert [survey.file_now(item) for item in record["files"]] == ["new", "new"]
    assert contents.newly_made(record) == {"d"} and rollback.to_restart({**record, "touched": ["d"]}) == []
    said, trouble = rollback.restore_files(book, record)
    assert trouble == [] and len(said) == 2 and "gone again" in said[0]
    assert machine.there() == (None, None)
    assert systemd()[-3:] == ["--no-reload disable sglang-d.service", "daemon-reload", "reset-failed sglang-d.service"]
    assert [survey.file_now(item) for item in record["files"]] == ["old", "old"]
    assert rollback.restore_files(book, record) == ([], [])  # a guard that was killed begins again
    assert machine.store.versions(str(machine.script))[0].label == "deploy"


def test_a_script_that_somebody_edited_meanwhile_is_not_removed(machine: Machine, systemd: Calls) -> None:
    book = machine.apply(machine.offer())
    machine.script.write_bytes(b"mine\n")
    _said, trouble = rollback.restore_files(book, book.load("change-1"))
    assert "somebody edited it" in trouble[0] and machine.script.read_bytes() == b"mine\n"


def test_old_scripts_and_units_come_back_together(machine: Machine, systemd: Calls) -> None:
    machine.deployed()
    before = machine.there()
    newer = machine.item({"A": "2"}, UNIT + b"Nice=1\n", confirmed={"A": "1"}, change_id="change-1")
    book = machine.apply(machine.offer(newer, existed=True), "change-2")
    assert machine.there() != before
    record = book.load("change-2")
    assert contents.newly_made(record) == set()
    said, trouble = rollback.restore_files(book, record)
    assert (len(said), trouble, machine.there()) == (2, [], before)
    assert systemd()[-1] == "daemon-reload"


def test_a_confirmed_deploy_can_be_put_back_but_not_the_first(machine: Machine, systemd: Calls) -> None:
    book = machine.deployed()
    first = book.load("change-1")
    path = str(machine.script)
    refused = [edit_back(machine.store, first, "d", path, True), *unit_edits_back(machine.store, first, "d", True)]
    assert all(edit is not None and "nothing before it" in edit["refused"] for edit in refused) and len(refused) == 2
    newer = machine.item({"A": "2"}, UNIT + b"Nice=1\n", confirmed={"A": "1"}, change_id="change-1")
    machine.apply(machine.offer(newer, existed=True), "change-2")
    book.confirm("change-2", "done")
    second = book.load("change-2")
    edit = edit_back(machine.store, second, "d", path, True)
    (unit,) = unit_edits_back(machine.store, second, "d", True)
    assert edit is not None and edit["expect"] == {"A": "1"} and unit["changed_lines"][0]["text"] == "Nice=1"
    with machine.store.lock("test"):
        contents.write_content(unit, second, machine.store)
    assert machine.unit.read_bytes() == UNIT
    assert unit_edits_back(machine.store, second, "d", True) == []


def test_an_edit_by_hand_is_a_conflict_until_somebody_decides(machine: Machine, systemd: Calls) -> None:
    machine.deployed()
    machine.script.write_bytes(machine.script.read_bytes().replace(b"A=1", b"A=9"))
    base = {"confirmed": {"A": "1"}, "change_id": "change-1"}
    assert "A is '9' on the machine" in str(machine.offer(machine.item(**base)).refused)
    kept = machine.offer(machine.item(take="host", **base))
    assert kept.edits == () and dict(kept.write_down) == {"A": "9"} and dict(kept.intended) == {"A": "9"}
    assert machine.offer(machine.item(take="vars", **base)).edits[0]["expect"] == {"A": "1"}


def test_so_is_one_of_the_unit_and_its_lines_are_shown(machine: Machine, systemd: Calls) -> None:
    machine.deployed()
    machine.unit.write_bytes(UNIT + b"Nice=5\n")
    base = {"confirmed": {"A": "1"}, "change_id": "change-1"}
    refused = machine.offer(machine.item(**base))
    assert "edited by hand since deploy of alice" in str(refused.refused) and "Nice=5" in str(refused.refused)
    assert machine.offer(machine.item(take="host", **base)).edits == ()
    assert machine.offer(machine.item(take="vars", **base)).edits[0]["sha256_after"] == contents.sha256_of(UNIT)
    machine.unit.write_bytes(b"[Service]\nExecStart=/usr/bin/other\n")
    fresh = Machine.__new__(Machine)
    fresh.__dict__.update(machine.__dict__, store=Store(machine.store.state_dir + "-2"))
    assert "was not written by pdops" in str(fresh.offer(fresh.item(take=None, **base)).refused)


def test_a_knob_that_a_change_set_since_is_told_before_it_is_taken_back(machine: Machine, systemd: Calls) -> None:
    machine.deployed()
    from_then = machine.script.read_bytes()
    machine.script.write_bytes(from_then.replace(b"A=1", b"A=2"))
    machine.store.write_journal(
        {
            "verb": "serve_knob",
            "path": str(machine.script),
            "knobs": {"A": {"before": "1", "after": "2"}},
            "change_id": "set-7",
            "actor": "bob",
        }
    )
    found = machine.offer(machine.item(confirmed={"A": "2"}, change_id="set-7"))
    assert "set to what it is by change set-7 of bob" in found.edits[0]["warnings"][-1]


def test_a_unit_that_systemd_would_complain_of_is_refused(machine: Machine, systemd: Calls) -> None:
    found = machine.offer(machine.item(unit=UNIT + b"Nonsense=1\n"))
    assert "systemd-analyze verify has something against the new sglang-d.service" in str(found.refused)


def test_a_unit_that_cannot_be_checked_for_want_of_space_is_refused_in_a_sentence(
    machine: Machine, systemd: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/self/nosuch")
    said = str(machine.offer().refused)
    assert (
        said.startswith("sglang-d.service could not be checked before it is written") and "nothing was written" in said
    )


def test_a_folder_of_units_that_cannot_be_written_is_refused_before_anything_is(
    machine: Machine, systemd: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_file, "is_writable", lambda folder: folder != str(machine.unit.parent))
    monkeypatch.setattr(new_file, "is_read_only", lambda _folder: True)
    assert f"{machine.unit} cannot be made, since the file system of" in str(machine.offer().refused)


def test_nothing_is_staged_that_the_plan_did_not_show(machine: Machine, systemd: Calls) -> None:
    with pytest.raises(PdopsError, match="not what the plan showed"):
        stage({"d": machine.offer()}, {str(machine.script): "0" * 64}, machine.store)
    assert not Path(machine.store.state_dir).exists()


def test_a_change_whose_contents_are_not_there_does_not_begin(machine: Machine, systemd: Calls) -> None:
    params = {
        "verb": "begin",
        "state_dir": machine.store.state_dir,
        "edits": list(machine.offer().edits),
    }
    with pytest.raises(PdopsError, match="stored version"):
        verbs.run(params, check_mode=False)


def test_what_was_taken_over_was_not_there_before_either(machine: Machine, systemd: Calls) -> None:
    former = machine.apply(machine.offer()).load("change-1")
    newer = machine.offer(
        machine.item({"A": "2"}, confirmed={"A": "1"}, change_id="change-1", take="vars"), existed=True
    )
    leader = who.this_process("bob")
    files = [contents.file_of(edit) for edit in newer.edits]
    later = rules.new_record("change-2", "dsv4", "deploy", "s", leader, files, former["instances"], 60, now_utc())
    merged = inherit(later, former)
    assert {item["sha256_before"] for item in merged["files"]} == {ABSENT} and contents.newly_made(merged) == {"d"}
    assert newer.edits[0]["existed"] is True


def test_a_machine_whose_init_is_something_else_is_refused(
    machine: Machine, systemd: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "RUN_FOLDER", "/no/such")
    assert "does not run systemd" in str(machine.offer().refused) and systemd() == []


def test_kernels_that_are_selected_stay_though_no_variable_has_them(machine: Machine, systemd: Calls) -> None:
    machine.deployed()
    knobs = {
        "PYTHONPATH": "/opt/pdops/kernels/0.1.0-0123abcd",
        "PDOPS_KERNELS_STATUS_DIR": "/s",
        "TRITON_CACHE_DIR": "/c",
    }
    lines = "".join(f"export {name}={value}\n" for name, value in knobs.items()).encode()
    present = machine.script.read_bytes()
    machine.script.write_bytes(present.replace(END.encode(), lines + END.encode()))
    confirmed = {"A": "1", **knobs}
    found = machine.offer(machine.item(confirmed=confirmed), existed=True)
    assert found.refused is None and not found.edits and dict(found.intended) == confirmed
    # Another PYTHONPATH selects none, and then it is a knob like any other.
    machine.script.write_bytes(machine.script.read_bytes().replace(b"/opt/pdops/kernels/0.1.0-0123abcd", b"/mine"))
    found = machine.offer(machine.item(confirmed={**confirmed, "PYTHONPATH": "/mine"}), existed=True)
    assert found.refused is None and [edit["kind"] for edit in found.edits] == ["script"]


KEYS = (b"api-key: sk-old-of-nobody-11\n", b"api-key: sk-new-of-nobody-22\n")
BASE = {"confirmed": {"A": "1"}, "change_id": "change-1"}


def with_old_key(machine: Machine) -> Book:
    book = machine.apply(machine.offer(machine.item(key=KEYS[0])))
    book.confirm("change-1", "done")
    assert machine.key.read_bytes() == KEYS[0] and machine.key.stat().st_mode & 0o777 == 0o600
    return book


def test_a_key_is_rotated_as_part_of_the_change_and_comes_back_with_it(machine: Machine, systemd: Calls) -> None:
    with_old_key(machine)
    assert machine.offer(machine.item(key=KEYS[0], **BASE), existed=True).edits == ()
    found = machine.offer(machine.item(key=KEYS[1], **BASE), existed=True)
    (edit,) = found.edits
    assert (edit["kind"], edit["mode"], edit["users"], edit["changed_lines"]) == ("key", 0o600, ["d"], [])
    assert edit["diff"]["after"] == "changed (content not shown)\n"
    book = machine.apply(found, "change-2")
    assert machine.key.read_bytes() == KEYS[1]
    record = book.load("change-2")
    assert "sk-" not in repr(found.as_dict()) + repr(machine.item(key=KEYS[1])) + repr(record)
    assert "sk-" not in repr(machine.store.journal())
    said, trouble = rollback.restore_files(book, record)
    assert trouble == [] and len(said) == 1
    assert machine.key.read_bytes() == KEYS[0] and machine.key.stat().st_mode & 0o777 == 0o600
    for content in KEYS:
        stored = Path(machine.store.object_path(contents.sha256_of(content)))
        assert stored.read_bytes() == content and stored.stat().st_mode & 0o777 == 0o600


def test_a_key_that_is_gone_meanwhile_is_written_again_private(machine: Machine, systemd: Calls) -> None:
    with_old_key(machine)
    book = machine.apply(machine.offer(machine.item(key=KEYS[1], **BASE), existed=True), "change-2")
    machine.key.unlink()
    assert rollback.restore_files(book, book.load("change-2"))[1] == []
    assert machine.key.read_bytes() == KEYS[0] and machine.key.stat().st_mode & 0o777 == 0o600


def test_a_key_that_came_with_a_change_that_fails_is_gone_again(machine: Machine, systemd: Calls) -> None:
    machine.deployed()
    book = machine.apply(machine.offer(machine.item(key=KEYS[0], **BASE), existed=True), "change-2")
    assert contents.newly_made(book.load("change-2")) == set()
    assert "is gone again" in rollback.restore_files(book, book.load("change-2"))[0][0] and not machine.key.exists()


def test_a_confirmed_rotation_is_put_back_without_showing_a_line(machine: Machine, systemd: Calls) -> None:
    with_old_key(machine)
    book = machine.apply(machine.offer(machine.item(key=KEYS[1], **BASE), existed=True), "change-2")
    book.confirm("change-2", "done")
    second = book.load("change-2")
    assert edit_back(machine.store, second, "d", str(machine.script), True) is None
    (edit,) = unit_edits_back(machine.store, second, "d", True)
    assert edit["kind"] == "key" and edit["refused"] is None and "sk-" not in repr(edit)
    with machine.store.lock("test"):
        contents.write_content(edit, second, machine.store)
    assert machine.key.read_bytes() == KEYS[0]
    machine.key.write_bytes(b"api-key: sk-of-a-hand\n")
    (edit,) = unit_edits_back(machine.store, second, "d", True)
    assert "was changed since change change-2" in edit["refused"] and "sk-" not in repr(edit)


def test_a_file_that_pdops_did_not_write_is_no_place_for_a_key(machine: Machine, systemd: Calls) -> None:
    machine.deployed()
    machine.key.write_bytes(b"api-key: sk-of-somebody-else\n")
    refused = machine.offer(machine.item(key=KEYS[0], **BASE), existed=True)
    assert "was not written by pdops" in str(refused.refused) and "sk-" not in repr(refused)
    assert machine.offer(machine.item(key=KEYS[0], take="host", **BASE), existed=True).edits == ()
    taken = machine.offer(machine.item(key=KEYS[0], take="vars", **BASE), existed=True)
    machine.apply(taken, "change-2")
    assert machine.key.read_bytes() == KEYS[0]
    machine.store.content(contents.sha256_of(b"api-key: sk-of-somebody-else\n"))
    machine.key.write_bytes(b"by hand\n")
    assert "edited by hand since" in str(machine.offer(machine.item(key=KEYS[1], **BASE), existed=True).refused)


def test_what_script_unit_and_keys_have_against_it_is_told_at_once(machine: Machine, systemd: Calls) -> None:
    machine.deployed()
    machine.script.write_bytes(machine.script.read_bytes().replace(b"A=1", b"A=9"))
    machine.unit.write_bytes(UNIT + b"Nice=5\n")
    machine.key.write_bytes(b"api-key: sk-of-somebody-else\n")
    refused = machine.offer(machine.item(key=KEYS[0], **BASE), existed=True)
    said = refused.details["mistakes"]
    assert len(said) == 3 and "A is '9' on the machine" in said[0]
    assert "sglang-d.service was edited by hand" in said[1] and "dest of pd_key_files" in said[2]
    assert str(refused.refused).startswith("3 reasons against it, and nothing was touched:\n- ")


def test_a_key_that_is_not_what_the_plan_saw_is_left_alone(machine: Machine, systemd: Calls) -> None:
    with_old_key(machine)
    found = machine.offer(machine.item(key=KEYS[1], **BASE), existed=True)
    machine.key.write_bytes(b"api-key: sk-of-a-hand\n")
    stage({"d": found}, {str(machine.key): found.edits[0]["sha256_after"]}, machine.store)
    with machine.store.lock("test"), pytest.raises(PdopsError, match="is not what the plan saw") as caught:
        contents.write_content(found.edits[0], Book(machine.store).load("change-1"), machine.store)
    assert "sk-" not in str(caught.value) + repr(caught.value.details) and b"hand" in machine.key.read_bytes()
