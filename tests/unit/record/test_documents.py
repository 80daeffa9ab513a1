# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Documents follow the record: regions byte for byte, prose by its references, figures, values and blame."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.record import documents
from ansible_collections.pdops.sglang.plugins.module_utils.record.fold import Folded
from ansible_collections.pdops.sglang.plugins.module_utils.record.prose import Line, findings_of

from .conftest import KNOB

CASES = Path(__file__).resolve().parents[2] / "cases" / "docs"
RED = json.loads((CASES / "red.json").read_text())


def written(tmp_path, stage, ids):
    """A stage of the story's documents, with the ids of this run in it."""
    folder = tmp_path / stage
    shutil.copytree(CASES / stage, folder, dirs_exist_ok=True)
    for path in folder.glob("*.md"):
        text = path.read_text()
        for name, kept in ids.items():
            text = text.replace(f"{{{name}}}", kept.id)
        path.write_text(text)
    return folder


def red(folder, folded):
    looks = [documents.look(path, folded) for path in documents.markdown_files([str(folder)])]
    found = {os.path.basename(look.path): sorted({item.line for item in look.findings}) for look in looks}
    return {name: lines for name, lines in found.items() if lines}


def test_the_two_documents_of_the_story_are_red_at_the_right_lines(checkout, tmp_path):
    ids = {"apply": checkout.set(), "measure": checkout.measure(), "measure2": checkout.measure("C96", 5.7)}
    folder = written(tmp_path, "adopted", ids)
    (plan,) = (documents.look(path, checkout.folded) for path in documents.markdown_files([str(folder)]))
    assert plan.stale and documents.render(plan)  # a region without content
    assert red(folder, checkout.folded) == RED["adopted"]
    assert not documents.look(plan.path, checkout.folded).stale
    assert f"- measured +5.7 % at C96: adopted [evidence:{ids['measure2'].id}]\n" in Path(plan.path).read_text()

    ids.update(suspect=checkout.add("suspect", knob=KNOB, said="an agent hung"), revert=checkout.revert())
    assert red(folder, checkout.folded) == RED["adopted, after the revert"]
    assert documents.look(plan.path, checkout.folded).stale
    stood = written(tmp_path, "as_they_stood", ids)
    assert red(stood, checkout.folded) == RED["as they stood, after the revert"]
    said = [item.said for item in documents.look(str(stood / "DSV4_PD_DEADLOCK_ISSUE.md"), checkout.folded).findings]
    assert f"blames {KNOB} as if it were proved, and the record only suspects it" in said

    ids["exonerate"] = checkout.add("exonerate", knob=KNOB, cause="proxy")
    ids["restore"] = checkout.set(kind="restore")
    assert red(stood, checkout.folded) == RED["as they stood, after the restore"]
    said = [item.said for item in documents.look(str(stood / "DSV4_DECODE_PERF_PLAN.md"), checkout.folded).findings]
    assert f"blames {KNOB}, and the record says adopted, exonerated (proxy)" in said
    assert f"speaks against {KNOB}, and the record says adopted, exonerated (proxy)" in said
    assert red(written(tmp_path, "reworded", ids), checkout.folded) == RED["reworded"]


def one(tmp_path, text, folded):
    path = tmp_path / "note.md"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return documents.look(str(path), folded)


def said(tmp_path, text, folded):
    return [(item.line, item.said) for item in one(tmp_path, text, folded).findings]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_region_is_rendered_byte_for_byte_and_nothing_else_is_touched(checkout, tmp_path, newline):
    checkout.set()
    before = (
        f"caf\xe9 \t{newline}{newline}<!-- pdops:begin knobs -->{newline}old{newline}<!-- pdops:end -->{newline}no end"
    )
    look = one(tmp_path, before.encode("latin-1"), checkout.folded)
    (tmp_path / "note.md").chmod(0o640)
    assert look.stale and documents.render(look) and not look.findings
    content = (tmp_path / "note.md").read_bytes()
    head, rest = content.split(b"-->", 1)
    assert head == b"caf\xe9 \t" + (newline * 2).encode() + b"<!-- pdops:begin knobs "
    assert rest.endswith(f"<!-- pdops:end -->{newline}no end".encode()) and b"old" not in rest
    assert (b"\r\n" in rest) == (newline == "\r\n") and rest.count(b"\n") == rest.count(newline.encode())
    assert (tmp_path / "note.md").stat().st_mode & 0o777 == 0o640
    again = documents.look(str(tmp_path / "note.md"), checkout.folded)
    assert not again.stale and not documents.render(again)
    # One character by hand, and it is found.
    (tmp_path / "note.md").write_bytes(content.replace(b"| 512 on", b"| 513 on"))
    assert documents.look(str(tmp_path / "note.md"), checkout.folded).stale


def test_a_document_that_changed_meanwhile_is_not_overwritten(checkout, tmp_path):
    checkout.set()
    look = one(tmp_path, "<!-- pdops:begin debt -->\n<!-- pdops:end -->\n", checkout.folded)
    (tmp_path / "note.md").write_text("somebody else's")
    with pytest.raises(PdopsError, match="changed by somebody else"):
        documents.render(look)
    assert (tmp_path / "note.md").read_text() == "somebody else's"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x\n<!-- pdops:begin knobs -->\nno end\n", 2, "has no <!-- pdops:end -->"),
        ("<!-- pdops:begin knobs -->\n<!-- pdops:begin debt -->\n<!-- pdops:end -->\n", 1, "has no <!-- pdops:end -->"),
        ("<!-- pdops:end -->\n", 1, "a marker of pdops that"),
        ("see <!-- pdops:begin knobs --> here\n", 1, "a marker of pdops that"),
        (
            "<!-- pdops:begin all -->\nmine\n<!-- pdops:end -->\n",
            1,
            "the view 'all' is unknown; it must be one of knobs, knob, debt, history",
        ),
        ("<!-- pdops:begin knob -->\nmine\n<!-- pdops:end -->\n", 1, "the view knob needs knob=NAME"),
        ("<!-- pdops:begin knob name=X -->\nmine\n<!-- pdops:end -->\n", 1, "a region takes knob=NAME, not name=X"),
    ],
)
def test_markers_that_mean_nothing_are_told_and_what_they_enclose_stays(checkout, tmp_path, text, line, words):
    look = one(tmp_path, text, Folded())
    assert look.findings[0].line == line and words in look.findings[0].said
    assert "mine" not in text or "mine" in look.after


def test_what_people_typed_cannot_break_out_of_a_region(checkout, tmp_path):
    checkout.set()
    checkout.add("suspect", knob=KNOB, said="x\n<!-- pdops:end -->\n| `y`")
    for view in ("knobs", "debt", f"knob knob={KNOB}", f"history knob={KNOB}", "knob knob=SGLANG_OTHER"):
        look = one(tmp_path, f"<!-- pdops:begin {view} -->\n<!-- pdops:end -->\n", checkout.folded)
        documents.render(look)
        again = documents.look(look.path, checkout.folded)
        assert not again.stale and not again.findings and look.after.count("<!--") == 2, view


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("`{K}=512` is in use.\n", "names {K} without a reference to an entry; the newest is [evidence:{measure}]"),
        ("`{K}` is in use [evidence:0123456789].\n", "there is no entry '0123456789'"),
        ("`{K}` is in use [evidence:{other}].\n", "names {K} without a reference"),
        ("`{K}` is in use [evidence:{apply}].\n", "{K} moved since what this refers to: measure {measure} of"),
        ("`{K}=768` is in use [evidence:{measure}].\n", "says {K}=768, and the entries that it refers to have 512"),
        (
            "`{K}` gives +13 % [evidence:{measure}].\n",
            "says +13 %, and the figures of the entries that it refers to are: +12.8",
        ),
        ("`{K}` gives -12.8% [evidence:{measure}].\n", "says -12.8%"),
        ("`{K}` hangs decode [evidence:{measure}].\n", "blames {K}, and the record says adopted"),
        ("`{K}` is fast [history:{measure}]. It triggers a deadlock.\n", "blames {K}, and the record says adopted"),
        ("Do not set `{K}` [evidence:{measure}].\n", "speaks against {K}, and the record says adopted"),
        ("`{K}` is fast [evidence:{wrong}].\n", "refers to measure {wrong}, which {correct} corrects"),
        ("## {K} causes hangs\n", "names {K} without a reference"),
    ],
)
def test_prose_is_held_to_what_it_refers_to(checkout, tmp_path, text, words):
    ids = {"apply": checkout.set(), "measure": checkout.measure()}
    ids["other"] = checkout.add("suspect", knob="SGLANG_OTHER", said="x")
    ids["wrong"] = checkout.measure(load="C1", effect_pct=99.0)
    ids["correct"] = checkout.add("correct", refs=[ids["wrong"].id], said="typed wrong")
    fill = {"K": KNOB, **{name: kept.id for name, kept in ids.items()}}
    for name, value in fill.items():
        text, words = text.replace(f"{{{name}}}", value), words.replace(f"{{{name}}}", value)
    assert any(words in item for _line, item in said(tmp_path, text, checkout.folded))


@pytest.mark.parametrize(
    "text",
    [
        "`{K}` gives +12.8 % at C64 [evidence:{measure}].\n",
        "At C64 it is 12.8% more\nwith `{K}=512` [evidence:{measure}], of 95 % sure.\n",
        "`{K}` does not cause the hang [evidence:{measure}].\n",
        "`{K}` was tried first [history:{apply}].\n",
        "## {K}\n\nNothing yet.\n",
        "`{K}_OLD` and NOT_{K} are other names, 40 % of them.\n",
        "A text of its own: the hang was 100 % reproducible.\n",
        "Set it [evidence:{measure}]:\n\n```sh\nexport {K}=512\n```\n",
        "| knob | effect |\n|---|---|\n| `{K}` | +12.8 % [evidence:{measure}] |\n| other | 3 % |\n",
    ],
)
def test_prose_that_says_what_its_entries_say_is_let_be(checkout, tmp_path, text):
    ids = {"apply": checkout.set(), "measure": checkout.measure(level=0.95)}
    for name, value in {"K": KNOB, **{name: kept.id for name, kept in ids.items()}}.items():
        text = text.replace(f"{{{name}}}", value)
    assert said(tmp_path, text, checkout.folded) == []


def test_a_suspicion_may_be_told_as_one_but_not_as_a_cause(checkout, tmp_path):
    checkout.set()
    ref = f"[evidence:{checkout.revert().id}]"
    assert said(tmp_path, f"`{KNOB}` is suspected to hang decode {ref}.\n", checkout.folded) == []
    ((_line, words),) = said(tmp_path, f"`{KNOB}` hangs decode {ref}.\n", checkout.folded)
    assert words == f"blames {KNOB} as if it were proved, and the record only suspects it"
    checkout.add("convict", knob=KNOB, cause="it hangs")
    ref = f"[evidence:{checkout.reading.entries[-1].id}]"
    assert said(tmp_path, f"`{KNOB}` hangs decode {ref}. Do not set it.\n", checkout.folded) == []


def test_code_that_sets_a_knob_is_prose_too(checkout, tmp_path):
    checkout.set()
    (found,) = said(tmp_path, f"Restart:\n\n~~~\nexport {KNOB}=512\n~~~\n", checkout.folded)
    assert found[0] == 4 and "without a reference" in found[1]


def test_a_path_that_names_no_document_is_refused(tmp_path):
    for path, words in ((tmp_path / "gone", "does not exist"), (tmp_path, "holds no Markdown file")):
        with pytest.raises(PdopsError, match=words):
            documents.markdown_files([str(path)])
    (tmp_path / "b").mkdir()
    for name in ("b/c.md", "a.MD", "d.txt", ".venv/e.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert documents.markdown_files([str(tmp_path), str(tmp_path / "a.MD")]) == [
        str(tmp_path / "a.MD"),
        str(tmp_path / "b/c.md"),
    ]


@pytest.mark.parametrize(
    ("opens", "closes"), [("```markdown", "```"), ("~~~", "~~~"), ("````", "````"), ("  ```", "  ```")]
)
def test_a_region_within_a_fence_is_an_example_and_stays(checkout, tmp_path, opens, closes):
    checkout.set()
    region = f"<!-- pdops:begin knob knob={KNOB} -->\nEXAMPLE\n<!-- pdops:end -->\n"
    page = tmp_path / "page.md"
    page.write_text(f"{opens}\n{region}{closes}\n\n{region}")
    looked = documents.look(str(page), checkout.folded)
    assert looked.after.startswith(f"{opens}\n{region}{closes}\n\n<!--") and looked.after.count("EXAMPLE") == 1
    assert looked.findings == ()


def test_a_fence_ends_only_with_its_like(checkout, tmp_path):
    checkout.set()
    region = f"<!-- pdops:begin knob knob={KNOB} -->\nEXAMPLE\n<!-- pdops:end -->\n"
    page = tmp_path / "page.md"
    page.write_text(f"````\n```\n~~~\n{region}````\n``` not `one`\n{region}")
    assert documents.look(str(page), checkout.folded).after.count("EXAMPLE") == 1


@pytest.mark.parametrize("piece", [f"{KNOB} hangs. ", f"{KNOB} +1% ", "It hangs. ", f"{KNOB}=1\n", f"`{KNOB}` x. "])
def test_prose_is_read_in_time_in_proportion(checkout, piece):
    checkout.set()
    text = f"{KNOB} " + piece * (400_000 // len(piece))
    began = time.monotonic()
    lines = [Line(number, line) for number, line in enumerate(text.split("\n"), 1)]
    assert findings_of(lines, checkout.folded)
    assert time.monotonic() - began < 5
