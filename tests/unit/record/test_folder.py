# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Entries on disk: written whole, found edited, deleted and malformed, merged by git without loss, never with a secret."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.record import folder, from_git
from ansible_collections.pdops.sglang.plugins.module_utils.record.fold import fold
from ansible_collections.pdops.sglang.plugins.module_utils.record.masking import holds_secret
from ansible_collections.pdops.sglang.plugins.module_utils.record.schema import KINDS, wrong_with
from hypothesis import given, settings
from hypothesis import strategies as st

from .conftest import KNOB, Checkout


def path_of(checkout, kept):
    return Path(checkout.top, "dsv4", kept.file)


def test_an_entry_is_one_file_named_by_its_time_kind_and_hash(checkout):
    kept = checkout.set(now=1764446773.25, change_id="20261129T200613-set-1f2e3d")
    assert kept.file == f"20251129T200613.250000Z-apply-{kept.id}.json"
    assert kept.id == folder.id_of(path_of(checkout, kept).read_bytes())
    assert checkout.reading == folder.Reading(f"{checkout.top}/dsv4", (kept,), ())
    assert folder.read(checkout.top, "other") == folder.Reading(f"{checkout.top}/other")


def test_a_clock_that_was_set_back_reorders_nothing(checkout):
    first = checkout.set(now=2_000_000_000.999999)
    second = checkout.measure(now=1_999_950_000)
    assert second.at == "2033-05-18T03:33:21.000000Z" > first.at
    assert [kept.id for kept in checkout.reading.entries] == [first.id, second.id]


def test_what_was_edited_is_found_and_counts_no_more(checkout):
    kept = checkout.measure()
    path = path_of(checkout, kept)
    path.write_text(path.read_text().replace("12.8", "22.8"))
    (said,) = checkout.reading.problems
    assert checkout.reading.entries == ()
    assert said.startswith(f"{path} was edited: its content has the hash ") and f"git log --follow -- {path}" in said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "it is no JSON"),
        (b"[]", "it is no mapping"),
        (b"[" * 5000 + b"]" * 5000, "it is no JSON (it is nested too deeply)"),
        (b'{"kind": "adopt"}', "its kind 'adopt' is unknown"),
        (b'{"kind": "note"}', "kind=note needs v"),
        (b"<<<<<<< HEAD\n", "it is no JSON"),
    ],
)
def test_what_is_malformed_is_found(checkout, content, words):
    os.makedirs(f"{checkout.top}/dsv4")
    path = Path(checkout.top, "dsv4", f"20251129T200613.250000Z-note-{folder.id_of(content)}.json")
    path.write_bytes(content)
    (said,) = checkout.reading.problems
    assert said.startswith(f"{path} is malformed: {words}") and said.count("\n") == 0


def test_what_was_deleted_is_found_by_what_refers_to_it(checkout):
    suspect = checkout.add("suspect", knob=KNOB, said="hang at 14:00")
    revert = checkout.revert(refs=[suspect.id])
    path_of(checkout, suspect).unlink()
    (said,) = checkout.reading.problems
    assert said.startswith(f"entry {suspect.id} is gone from {checkout.top}/dsv4, and {revert.file} refers to it")
    # One that was edited is told once, as edited.
    other = checkout.add("suspect", knob=KNOB, said="again")
    checkout.add("exonerate", knob=KNOB, cause="proxy", refs=[other.id])
    path_of(checkout, other).write_text("{}")
    assert [("was edited" in said, "is gone" in said) for said in checkout.reading.problems] == [
        (True, False),
        (False, True),
    ]


def test_foreign_files_are_told_and_the_notes_of_people_are_left_alone(checkout):
    kept = checkout.set()
    inside = Path(checkout.top, "dsv4")
    (inside / "README.md").write_text("why we do this")
    (inside / ".pdops-half-0123456789ab").write_text("{")
    shutil.copy(inside / kept.file, inside / "copy.json")
    shutil.copy(inside / kept.file, inside / kept.file.replace("-apply-", "-restore-"))
    os.makedirs(f"{checkout.top}/other")
    shutil.copy(inside / kept.file, f"{checkout.top}/other/{kept.file}")
    reading = checkout.reading
    assert [item.id for item in reading.entries] == [kept.id]
    assert [said.split(": ")[0].split(" ", 1)[1] for said in reading.problems] == [
        f"does not have the name of its time and kind, {kept.file}; rename it.",
        "is no entry of the record",
    ]
    assert "is an entry of dsv4, not of other" in folder.read(checkout.top, "other").problems[0]


def test_a_fifo_a_folder_and_a_file_without_permission_hold_nobody_up(checkout):
    os.makedirs(f"{checkout.top}/dsv4")
    for at, make in enumerate((os.mkfifo, os.mkdir)):
        make(f"{checkout.top}/dsv4/20251129T200613.25000{at}Z-note-{at:016x}.json")
    assert len(checkout.reading.problems) == 2


def test_what_is_not_whole_is_refused_before_anything_is_written(checkout):
    for words_given, words in (
        ({"kind": "adopt"}, "its kind 'adopt' is unknown"),
        ({"kind": "measure", "knob": KNOB, "value": "512", "load": "C64"}, "kind=measure needs effect_pct"),
        ({"kind": "note", "said": "x", "effect_pct": 1}, "kind=note has no 'effect_pct'"),
        ({"kind": "note", "said": "x", "refs": ["0" * 16]}, "it refers to 0000000000000000, and"),
        ({"kind": "correct", "said": "x", "refs": []}, "kind=correct needs refs"),
        ({"kind": "exonerate", "knob": "a b", "cause": "x"}, "knob must be the name of a knob"),
        ({"kind": "note", "said": "x", "deployment": "../up"}, "cannot name a folder"),
        ({"kind": "exonerate", "knob": "HF_TOKEN", "cause": "x"}, "HF_TOKEN looks like a secret"),
    ):
        with pytest.raises(PdopsError, match=words):
            checkout.add(**words_given)
    assert not os.path.exists(checkout.top)


def test_no_secret_gets_in_on_any_way(checkout):
    secret = "hf_AbCdEfGhIjKlMnOpQrStUv"
    for at, (kind, (needs, _may)) in enumerate(KINDS.items()):
        words = dict.fromkeys(("said", "reason", "cause", "found"), f"with --api-key {secret} and HF_TOKEN={secret}")
        whole = {"knob": KNOB, "instance": secret, "before": f"x --token={secret}", "after": secret, "value": secret}
        whole.update(load="C64", effect_pct=1.0, suspicion=True, outcome="undone", **words)
        entry = {name: whole[name] for name in (*needs, "said") if name in whole}
        if kind == "correct":
            entry["refs"] = [checkout.reading.entries[0].id]
        checkout.add(
            kind, now=1_800_000_000 + at, **entry, fingerprint={"decode arguments": f"--api-key {secret} --tp-size 4"}
        )
    content = b"".join(path.read_bytes() for path in Path(checkout.top).rglob("*.json"))
    assert secret.encode() not in content and content.count(b"********") > 20
    assert checkout.reading.problems == () and len(checkout.reading.entries) == len(KINDS)


def git(folder_, *words):
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.net", *words],
        cwd=folder_,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_operators_with_two_checkouts_lose_nothing_and_are_told_where_they_contradict_each_other(tmp_path):
    first = Checkout(tmp_path / "alice")
    first.set()
    first.measure()
    revert = first.revert()
    git(first.top, "init", "-q", "-b", "main")
    git(first.top, "add", ".")
    git(first.top, "commit", "-qm", "evidence")
    git(tmp_path, "clone", "-q", "alice", "bob")
    second = Checkout(tmp_path / "bob", by="bob on ops2")
    first.add("exonerate", knob=KNOB, cause="proxy", refs=[revert.id])
    second.add("convict", knob=KNOB, cause="hang in decode", refs=[revert.id])
    for each in (first, second):
        git(each.top, "add", ".")
        git(each.top, "commit", "-qm", "evidence")
    git(second.top, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
    merged = second.reading
    assert not merged.problems and len(merged.entries) == 5
    (said,) = second.folded.contradictions
    assert "by alice on ops1 and convict " in said and "by bob on ops2 contradict each other" in said
    # Somebody decides: the contradiction is gone, and nothing was deleted.
    wrong = next(kept for kept in merged.entries if kept.kind == "convict")
    second.add("correct", refs=[wrong.id], said="looked at the wrong machine")
    assert second.folded.contradictions == [] and second.knob.verdict == "exonerated"
    assert len(second.reading.entries) == 6


def committed(checkout, words="evidence"):
    git(checkout.top, "add", "-A", ".")
    git(checkout.top, "commit", "-qm", words)


def cloned(tmp_path):
    first = Checkout(tmp_path / "alice")
    first.set()
    git(first.top, "init", "-q", "-b", "main")
    committed(first)
    git(tmp_path, "clone", "-q", "alice", "bob")
    return first, Checkout(tmp_path / "bob", by="bob on ops2")


def merge(checkout):
    git(checkout.top, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")


def test_two_operators_who_both_changed_and_measured_it_are_told_after_git_has_merged_them(tmp_path):
    first, second = cloned(tmp_path)
    first.set("256", "512", now=1_900_000_000)
    first.add("measure", knob=KNOB, value="512", load="C64", effect_pct=3, verdict="adopted", now=1_900_000_001)
    second.set("768", "512", now=1_900_000_010)
    second.add("measure", knob=KNOB, value="512", load="C64", effect_pct=-3, verdict="rejected", now=1_900_000_011)
    committed(first)
    committed(second)
    merge(second)
    assert second.reading.problems == () and len(second.reading.entries) == 5
    found, measured = sorted(second.folded.contradictions)
    assert f"found {KNOB}=512 on dsv4-decode, and the record has =256 there since apply " in found
    assert f"about {KNOB}=512 at C64: correct one of them, or measure again" in measured


def test_an_entry_that_nothing_refers_to_is_missed_by_git_however_it_went(tmp_path):
    first, second = cloned(tmp_path)
    inside = f"{second.top}/dsv4"

    def gone():
        return [said.split(" is gone, and git has it")[0] for said in from_git.gone(inside, folder.names_in(inside))]

    assert gone() == []
    mine = second.add("note", said="written and not committed is no entry of git's yet")
    os.unlink(f"{inside}/{mine.file}")
    assert gone() == []
    note = first.add("note", said="x")
    committed(first)
    merge(second)
    os.unlink(f"{inside}/{note.file}")
    assert gone() == [f"{inside}/{note.file}"]  # in the work tree only
    committed(second, "clean up")
    assert gone() == [f"{inside}/{note.file}"]  # in a commit
    git(second.top, "reset", "-q", "--hard", "HEAD~1")
    other = first.add("note", said="y")
    committed(first)
    second.add("note", said="z")
    committed(second)
    git(second.top, "fetch", "-q", "origin", "main")
    git(second.top, "merge", "-q", "-s", "ours", "--no-edit", "FETCH_HEAD")
    assert gone() == [f"{inside}/{other.file}"]  # by a merge, which no commit deletes
    shutil.rmtree(inside)
    assert len(from_git.gone(inside, [])) == 4
    assert from_git.gone(str(tmp_path / "elsewhere" / "dsv4"), []) == []


_SECRET = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=24, max_size=40)
#: Ways in which a secret comes into the words that people type and machines tell.
_FORMS = (
    "HF_TOKEN={}", "hangs with --api-key {}", "curl -H 'Authorization: Bearer {}' failed", "redis://:{}@h:1/0",
    "https://user:{}@host/x", "OPENAI_API_KEY='{}'", '{{"api_key": "{}"}}', "hf_{}", "sk-{}", "password={} and more",
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(
    _SECRET,
    st.sampled_from(_FORMS),
    st.sampled_from([kind for kind in KINDS if kind != "correct"]),
    st.text("abc ,.;", max_size=8),
    st.sampled_from(["said", "every", "fingerprint", "forgoing", "missing"]),
)
def test_no_secret_in_any_text_of_any_kind(tmp_path_factory, secret, form, kind, around, place):
    told = f"{around} {form.format(secret)}"
    checkout = Checkout(tmp_path_factory.mktemp("secret"), by=f"alice {told}" if place == "every" else "alice on ops1")
    plain = {
        "knob": KNOB, "instance": "i", "before": "1", "after": "2", "value": "1", "load": "C64", "effect_pct": 1.0, "suspicion": False,
        "outcome": "undone", "reason": "r", "cause": "c", "found": "f", "said": "s",
    }  # fmt: skip
    needs, may = KINDS[kind]
    entry = {name: item for name, item in plain.items() if name in (*needs, "said")}
    if place == "every":
        typed = [name for name, item in entry.items() if isinstance(item, str) and name not in ("knob", "outcome")]
        entry.update(dict.fromkeys(typed, told))
    elif place == "fingerprint":
        entry["fingerprint"] = {"decode arguments": told}
    elif place in may:
        entry[place] = [told] if place == "missing" else [{"load": told, "effect_pct": 1}]
    else:
        entry["said"] = told
    kept = checkout.add(kind, **entry)
    content = path_of(checkout, kept).read_text()
    assert secret not in content and "********" in content and not holds_secret(kept.data)
    assert checkout.reading.entries == (kept,)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(["note", "suspect", "exonerate"]), st.integers(0, 50)), max_size=12
    )
)
def test_a_merge_is_the_union_whatever_the_clocks_say(tmp_path_factory, steps):
    top = tmp_path_factory.mktemp("merge")
    both = [Checkout(top / "a", "alice"), Checkout(top / "b", "bob")]
    written = {}
    for who, kind, clock in steps:
        words = {"note": {"said": "x"}, "suspect": {"said": "y"}, "exonerate": {"cause": "z"}}[kind]
        mine = both[who].reading.entries
        refs = [mine[clock % len(mine)].id] if mine and clock % 3 else []
        kept = both[who].add(kind, now=1_800_000_000 + clock, knob=KNOB, refs=refs, **words)
        written[kept.id] = kept
    for each in both:
        os.makedirs(f"{each.top}/dsv4", exist_ok=True)
    shutil.copytree(both[1].top, both[0].top, dirs_exist_ok=True)
    shutil.copytree(both[0].top, both[1].top, dirs_exist_ok=True)
    assert both[0].reading.entries == both[1].reading.entries and not both[0].reading.problems
    assert {kept.id for kept in both[0].reading.entries} == set(written)
    seen = set()
    for kept in both[0].reading.entries:
        assert set(kept.refs) <= seen
        seen.add(kept.id)
    assert (
        fold(both[0].reading.entries).contradictions
        == fold(folder.in_order(reversed(both[1].reading.entries))).contradictions
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_every_kind_is_checked(kind):
    whole = {
        "v": 1, "at": "2026-11-29T20:06:13.000000Z", "kind": kind, "deployment": "dsv4", "by": "a on b", "said": "x", "refs": ["0" * 16],
        "knob": KNOB, "instance": "i", "before": None, "after": "1", "value": "1", "load": "C64", "effect_pct": 1, "reason": "r",
        "suspicion": False, "cause": "c", "found": "f", "outcome": "undone",
    }  # fmt: skip
    needs = KINDS[kind][0]
    entry = {
        name: item
        for name, item in whole.items()
        if name in ("v", "at", "kind", "deployment", "by", "said", "refs", *needs)
    }
    assert wrong_with(entry) == ""
    for name in entry:
        if name not in ("said", "refs") or name in needs:
            assert wrong_with({key: item for key, item in entry.items() if key != name})
        for odd in (True, -1.5, [], [1], {}, {"a": 1}, "x" * 9999, float("nan")):
            if wrong_with({**entry, name: odd}) == "":
                assert (name, odd) in [("effect_pct", -1.5), ("refs", []), ("suspicion", True)], (name, odd)
    assert wrong_with({**entry, "more": 1}) == f"kind={kind} has no 'more'"
    assert json.loads(json.dumps(entry)) == entry


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("effect_pct", value) for value in (10**400, -(10**400), 9.9)),
        *(("cv_pct", -3), ("low_pct", float("inf")), ("pairs", 10**400), ("level", 10**400), ("high_pct", 12)),
    ],
)
def test_a_figure_that_cannot_be_is_refused_and_never_ends_the_reading(checkout, field, value):
    figures = {"effect_pct": 12.8, "low_pct": 10.0, "high_pct": 14.0, field: value}
    with pytest.raises(PdopsError, match="the entry is refused"):
        checkout.measure(**figures)
    kept = checkout.measure()
    place = Path(checkout.top) / "dsv4" / kept.file
    content = json.dumps({**kept.data, **figures}).encode()
    place.unlink()
    (place.parent / folder.file_name(kept.data, folder.id_of(content))).write_bytes(content)
    assert checkout.reading.entries == () and "is malformed" in checkout.reading.problems[0]


def test_a_clock_that_was_years_ahead_makes_no_later_entry_as_late_and_is_told(checkout):
    now = 1_800_000_000
    soon = checkout.add("note", now=now + 3600, said="a clock of an hour ahead is followed")
    assert checkout.add("note", now=now, said="so that the order stays").at > soon.at
    wrong = checkout.add("note", now=now + 70 * 366 * 86_400, said="2096")
    for more in range(3):
        assert checkout.add("note", now=now + 7200 + more, said="x").at == folder.moment(now + 7200 + more)
    (said,) = folder.ahead(checkout.reading.entries, now)
    assert wrong.file in said and "the clock of alice on ops1 was wrong" in said and f"-e entry={wrong.id}" in said
    assert checkout.reading.problems == ()


@pytest.mark.parametrize(
    "time_", ["99999999T999999.999999", "20260231T000000.000000", "00000000T000000.999999", "20260101T006061.999999"]
)
def test_a_name_that_is_no_moment_stops_nobody(checkout, time_):
    Path(checkout.top, "dsv4").mkdir(parents=True)
    at = f"{time_[:4]}-{time_[4:6]}-{time_[6:8]}T{time_[9:11]}:{time_[11:13]}:{time_[13:15]}{time_[15:]}Z"
    data = {"v": 1, "at": at, "kind": "note", "deployment": "dsv4", "by": "x", "said": "forged"}
    content = folder.render(data)
    Path(checkout.top, "dsv4", f"{time_}Z-note-{folder.id_of(content)}.json").write_bytes(content)
    kept = checkout.add("note", now=1_800_000_000, said="x")
    assert kept.at == folder.moment(1_800_000_000)
    assert checkout.reading.entries == (kept,) and "is malformed" in checkout.reading.problems[0]


@pytest.mark.parametrize("day", ["2026-99-99", "2026-02-30", "0000-01-01"])
def test_a_day_that_there_is_not_is_refused(checkout, day):
    checkout.set()
    with pytest.raises(PdopsError, match="review_by must be a day"):
        checkout.revert(review_by=day)
