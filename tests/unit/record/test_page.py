# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The page of a deployment: everything that people typed is escaped, and what is owed comes first."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import jinja2
from ansible_collections.pdops.sglang.plugins.module_utils.record.fold import Folded
from ansible_collections.pdops.sglang.plugins.module_utils.record.page import MOST_ENTRIES, page_view
from ansible_collections.pdops.sglang.plugins.module_utils.record.text import losses

from .conftest import KNOB

TEMPLATES = Path(__file__).resolve().parents[3] / "templates" / "report"
TODAY = "2026-11-29"


def page(folded, contradictions=(), problems=()):
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    view = page_view("dsv4", folded, contradictions, problems, TODAY, "/evidence/dsv4")
    return view, environment.get_template("record.html.j2").render(view)


class Tags(HTMLParser):
    VOID = ("meta",)

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_debt_contradiction_and_distrust_lead_the_page(checkout):
    checkout.set()
    checkout.measure(low_pct=10.9, high_pct=14.7)
    assert page(checkout.folded)[0]["outcome"]["name"] == "No debt"
    checkout.revert(forgoing=losses(checkout.knob.measured("512")))
    view, html = page(checkout.folded)
    assert view["outcome"] == {"name": "1 debt open", "sign": "?", "tone": "warn"}
    assert (
        html.index('<h2 id="debt">')
        < html.index("forgoing +12.8 % [+10.9, +14.7] at C64")
        < html.index('<h2 id="knobs">')
    )
    assert [part["label"] for part in view["lanes"][0]["segments"]] == ["512", "unset"]
    assert page(checkout.folded, ["x"])[0]["outcome"]["name"] == "Contradicts itself"
    assert page(checkout.folded, ["x"], ["y"])[0]["outcome"]["name"] == "Not to be trusted"
    assert "No debt" in page(Folded())[1] and "None yet." in page(Folded())[1]


def test_a_suspicion_of_what_runs_leads_the_page_and_a_measured_value_stays_on_it(checkout):
    checkout.set()
    kept = checkout.measure()
    checkout.add("suspect", knob=KNOB, said="an agent hung")
    view, html = page(checkout.folded)
    assert view["outcome"] == {"name": "1 suspicion open", "sign": "?", "tone": "warn"} and "No debt" not in html
    assert html.index('<h2 id="suspicions">') < html.index(f"{KNOB}=512 is suspected (an agent hung)")
    checkout.set("256", "512")
    view, html = page(checkout.folded)
    assert view["outcome"]["name"] == "No debt" and 'id="suspicions"' not in html  # 512 runs nowhere any more
    assert f'512 measured +12.8 % at C64 (adopted), forgone now <code class="muted">{kept.id}' in html


def test_what_people_typed_cannot_become_markup_and_what_is_corrected_stays_visible(checkout):
    bad = "<script>alert(1)</script> <b>&amp;"
    checkout.set(after=bad)
    wrong = checkout.add("suspect", knob=KNOB, said=bad)
    correct = checkout.add("correct", refs=[wrong.id], said=bad)
    checkout.add("exonerate", knob=KNOB, cause=bad)
    _view, html = page(checkout.folded, [bad], [bad])
    tags = Tags()
    tags.feed(html)
    assert tags.open == [] and not {"script", "img", "iframe", "link", "a"} & tags.seen
    assert "<b>&amp;" not in html and f"corrected by {correct.id}" in html
    assert "http" not in html.replace("http-equiv", "")


def test_a_long_record_is_cut_and_says_so(checkout):
    kept = checkout.add("note", said="x")
    entries = [kept._replace(id=f"{at:016x}") for at in range(MOST_ENTRIES + 7)]
    view, html = page(Folded(entries=entries))
    assert len(view["entries"]) == MOST_ENTRIES and "and 7 older ones" in html
