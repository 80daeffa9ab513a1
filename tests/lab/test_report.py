# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Reports of real runs, looked at in a real browser at phone and desk width, in the light and in the dark.

With PDOPS_PICTURES=FOLDER (tools/pictures) the pictures of the documentation are made on the way.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from .browser import Screen, browser, find_chromium
from .conftest import KNOB, ROOT, Lab

pytestmark = [pytest.mark.lab, pytest.mark.long]

MOST_PICTURE_BYTES = 200_000
#: What is wrong with the page as it is shown: things that stick out to the right, letters too small, too little contrast.
ASK = """(() => {
  const bad = [], wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) bad.push(`scrolls to ${document.documentElement.scrollWidth} of ${wide}`);
  const light = color => {
    const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(color)) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  let looked = 0;
  for (const element of document.querySelectorAll('main *')) {
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    if (!box.width || style.display === 'none') continue;
    const name = `${element.tagName}.${element.getAttribute('class')} ${(element.textContent || '').trim().slice(0, 40)}`;
    if (box.right > wide + 1 || box.left < -1) bad.push(`sticks out: ${name} ${box.left} to ${box.right}`);
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest('svg')) continue;
    looked += 1;
    if (parseFloat(style.fontSize) < 11.9) bad.push(`small: ${name} ${style.fontSize}`);
    const [a, b] = [light(style.color), light(ground(element))];
    const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (contrast < 4.5) bad.push(`contrast ${contrast.toFixed(1)}: ${name}`);
  }
  const texts = [...document.querySelectorAll('.drawing svg text')].filter(text => getComputedStyle(text).display !== 'none');
  const bars = [...document.querySelectorAll('.drawing svg rect.bar')].filter(bar => bar.getBoundingClientRect().width > 0);
  const top = document.querySelector('.pill').getBoundingClientRect();
  return {bad, looked, bars: bars.length, labels: texts.length, pill: top.bottom, dark: light(getComputedStyle(document.body).backgroundColor) < .1};
})()"""
OPEN = "document.querySelectorAll('details').forEach(item => item.open = true)"


@pytest.fixture(scope="module")
def reports(module_lab: Lab) -> dict[str, Path]:
    """The pages that two runs wrote, one confirmed and one rolled back, and one of what a probe found elsewhere."""
    made = {}
    module_lab.story()
    refused = ("fault", "refuse_start_with", f"{KNOB}=768")
    runs: list[tuple[str, int, tuple[str, ...]]] = [
        ("confirmed", 0, ("restore_knob.yml",)),
        ("rolled-back", 2, ("set_knob.yml", "-e", f"knob={KNOB}", "-e", "value=768")),
    ]
    for name, rc, command in runs:
        folder = module_lab.dir / "reports" / name
        ran = module_lab.play(*command, "-e", f"pd_report_dir={folder}", "-e", "pd_drain_s=3")
        assert ran.rc == rc, ran.text
        (path,) = folder.rglob(f"*-{module_lab.changes()[-1]['id']}.html")
        assert f"report: {path}" in ran.text
        assert f"[lab] {name.replace('-', ' ')}: " in ran.text
        assert path.read_bytes() == path.with_name("latest.html").read_bytes()
        made[name] = path
        module_lab.lab(*refused)
    story = json.loads((ROOT / "tests/unit/report/stories/probe-failed.json").read_text())
    folder = module_lab.dir / "reports" / "probe"
    task = {"pdops.sglang.pd_report": {"story": story, "folder": str(folder)}}
    book = module_lab.dir / "probe.yml"
    book.write_text(yaml.safe_dump([{"hosts": "lab", "gather_facts": False, "tasks": [task]}]))
    ran = module_lab.play(str(book))
    assert ran.rc == 0 and ran.recap["changed"] == 0, ran.text
    made["probe"] = folder / "latest.html"
    made["record"] = module_lab.dir / "reports" / "rolled-back" / "lab" / "record.html"
    for path in made.values():
        # Pictures are for everybody: where this test happened to run says nothing there.
        path.write_text(
            re.sub(r" on [\w.-]+(?=</dd>)", " on controller", path.read_text().replace(str(module_lab.dir), "/srv/lab"))
        )
    return made


def test_the_pages_tell_what_really_happened(reports: dict[str, Path]) -> None:
    page = reports["confirmed"].read_text()
    assert re.search(r"outage \d+ s", page)
    for word in (
        f"export {KNOB}=512",
        "rendezvous",
        "completion",
        "finish_reason",
        "revert_knob.yml",
        "those of a simulation",
    ):
        assert word in page, word
    page = reports["rolled-back"].read_text()
    assert re.search(r"start lab-decode|lab-decode, gate (unit|port)", page)
    for word in ("RuntimeError: simulated", "start (rollback)", "serve again", "set_knob.yml", "those of a simulation"):
        assert word in page, word


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed (Debian: apt-get install chromium)")
def test_it_is_right_on_a_phone_and_on_a_desk_in_the_light_and_in_the_dark(
    reports: dict[str, Path], tmp_path: Path
) -> None:
    pictures = Path(os.environ.get("PDOPS_PICTURES") or tmp_path).resolve()
    pictures.mkdir(parents=True, exist_ok=True)
    taken = [
        ("confirmed", 1280, False, 1060),
        ("confirmed", 390, False, 1300),
        ("rolled-back", 1280, True, 1110),
        ("rolled-back", 390, True, 1300),
        ("probe", 1280, False, 800),
    ]
    with browser() as chromium:
        for name, width, dark, height in taken:
            place = "desk" if width > 700 else "phone"
            picture = pictures / f"report-{name}-{place}.png"
            seen = chromium.look(reports[name], Screen(width, dark, most_height=height), ASK, picture)
            found = seen["found"]
            assert found["bad"] == [], f"{name} at {width}"
            assert found["dark"] is dark and found["looked"] > 20
            assert found["pill"] < 200  # the outcome is on the first screen
            if name != "probe":
                assert found["bars"] >= 9 and found["labels"] >= 5
            # One file, whole in itself.
            assert seen["requests"] == [reports[name].resolve().as_uri()]
            assert picture.read_bytes().startswith(b"\x89PNG")
            assert 5_000 < picture.stat().st_size < MOST_PICTURE_BYTES, picture.stat().st_size
        for name, path in reports.items():
            for width in (320, 390, 800, 1280):
                # Unfolded, the longest evidence must fit, too.
                found = chromium.look(path, Screen(width, dark=width == 800, before=OPEN), ASK)["found"]
                assert found["bad"] == [], f"{name} at {width}, unfolded"
