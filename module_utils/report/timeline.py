# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The geometry of the timeline: a lane per instance, a bar per step and gate, marks of the change, the outage.

Horizontal places are percent of the plot, so that one drawing serves a phone and a desk; a label carries the
width (CSS pixels of the plot) from which on it fits, and the style sheet shows it from there on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from . import wording
from .outage import Outage, outage_of
from .story import Event, Story

LANE_PX, BAR_PX, BAR_TOP_PX, HEAD_PX, FOOT_PX = 46, 22, 18, 48, 22
_CHARACTER_PX, _PADDING_PX = 6.3, 10
#: Widths of the plot from which on labels may show, in CSS pixels; the style sheet knows the same.
FITS = (300, 420, 560, 720, 900, 1060)
_SMALLEST = 0.3  # percent, or a gate of 0.0 s could not be seen
_TICKS_S = (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
_MOST_TICKS = 9
_KIND_WORDS = {"readd": "back in router", "gates": "gates"}


@dataclass(frozen=True)
class _Scale:
    began: float
    span_s: float

    def x(self, moment: float) -> float:
        return round(100 * min(1.0, max(0.0, (moment - self.began) / self.span_s)), 3)


def timeline(story: Story) -> Optional[dict[str, Any]]:
    """Everything that the template draws, or None when no event has a time."""
    timed = [item for item in story.events if item.began is not None]
    if not timed:
        return None
    moments = [when for item in timed for when in (item.began, item.ended) if when is not None]
    began = min([*moments, *([story.began] if story.began is not None else [])])
    ended = max([*moments, *([story.ended] if story.ended is not None else [])])
    scale = _Scale(began, max(ended - began, 0.001))
    lanes: list[dict[str, Any]] = []
    for member in story.members:
        bars = _bars_of(story, member.name, scale)
        if bars:
            top = HEAD_PX + LANE_PX * len(lanes)
            lanes.append({"name": member.name, "role": member.role, "top": top, "bars": bars})
    bottom = HEAD_PX + LANE_PX * len(lanes)
    outage = outage_of(story)
    return {
        "lanes": lanes,
        "marks": _marks(story, scale),
        "outage": _band(outage, scale, ended),
        "ticks": _ticks(scale),
        "head": HEAD_PX,
        "lane_height": LANE_PX,
        "bar_top": BAR_TOP_PX,
        "bar_height": BAR_PX,
        "bottom": bottom,
        "height": bottom + FOOT_PX,
        "told": _told(story, lanes, outage, scale),
    }


def _bars_of(story: Story, name: str, scale: _Scale) -> list[dict[str, Any]]:
    bars: list[dict[str, Any]] = []
    down_since: Optional[float] = None
    for event in story.events:
        if event.kind == "rollback":
            more, down_since = _rollback_bars(event, name, scale, down_since)
            bars += more
            continue
        if event.instance != name or event.began is None:
            continue
        ended = event.ended if event.ended is not None else event.began
        if event.kind == "start" and down_since is not None:
            bars.append(_bar("down", "down", "", down_since, event.began, scale))
            down_since = None
        if event.kind == "gates":
            bars += _gate_bars(event, ended, scale)
        else:
            kind = "failed" if event.result != "ok" else event.kind
            bars.append(_bar(kind, _KIND_WORDS.get(event.kind, event.kind), event.said, event.began, ended, scale))
        if event.kind == "stop":
            down_since = ended
    if down_since is not None:
        bars.append(_bar("down", "down", "", down_since, scale.began + scale.span_s, scale))
    return bars


def _gate_bars(event: Event, ended: float, scale: _Scale) -> list[dict[str, Any]]:
    """Gates one after the other; what the machine did not measure (the way there) is the bar below them."""
    began = event.began or 0.0
    bars = [_bar("way", "gates", event.said, began, ended, scale)]
    bars[0]["labels"] = []
    measured = [gate.seconds for gate in event.gates if gate.seconds is not None]
    unmeasured = len(event.gates) - len(measured)
    rest = max(0.0, ended - began - sum(measured))
    # The module may count seconds that the controller's clock did not see; never draw beyond the event.
    shrink = min(1.0, (ended - began) / sum(measured)) if sum(measured) > 0 else 1.0
    at = began
    for gate in event.gates:
        seconds = gate.seconds * shrink if gate.seconds is not None else rest / unmeasured
        bars.append(_bar(gate.result, gate.gate, gate.said, at, at + seconds, scale, shown_s=gate.seconds))
        at += seconds
    return bars


def _rollback_bars(
    event: Event, name: str, scale: _Scale, down_since: Optional[float]
) -> tuple[list[dict[str, Any]], Optional[float]]:
    """The way back as the guard noted it, in whole seconds. A stop lasts until the guard's next step, a start until its own.

    Also returns since when the instance is down at the end, None when it is not.
    """
    steps = [step for step in event.steps if step.at >= (event.began or 0.0) - 1.0]
    last = event.ended if event.ended is not None else max([step.at for step in steps], default=0.0)
    bars: list[dict[str, Any]] = []
    for at, step in enumerate(steps):
        if step.instance != name or step.step not in ("stop", "kill", "start", "restart"):
            continue
        if down_since is not None:
            bars.append(_bar("down", "down", "", down_since, step.at, scale))
            down_since = None
        following = steps[at + 1 :]
        if step.step in ("stop", "kill"):
            down_since = following[0].at if following else last
            bars.append(_bar("stop", f"{step.step} (rollback)", step.said, step.at, down_since, scale))
        else:
            ended = next((item.at for item in following if item.instance == name), last)
            bars.append(_bar("start", "start (rollback)", step.said, step.at, max(step.at, ended), scale))
    return bars, down_since


def _bar(
    kind: str, word: str, said: str, began: float, ended: float, scale: _Scale, shown_s: Optional[float] = None
) -> dict[str, Any]:
    seconds = wording.duration(shown_s if shown_s is not None else ended - began)
    x, width = scale.x(began), max(_SMALLEST, scale.x(ended) - scale.x(began))
    x = min(x, 100 - width)
    _name, sign, _tone = wording.result_words(kind)
    sign = sign if kind in wording.RESULT_WORDS and kind != "passed" else ""
    title = f"{word} {wording.result_words(kind)[0] if kind in wording.RESULT_WORDS else ''} {seconds}".replace(
        "  ", " "
    )
    return {
        "kind": kind,
        "x": x,
        "width": width,
        "title": f"{title}: {said}" if said else title,
        "labels": _labels([f"{sign} {word} {seconds}".strip(), f"{sign} {word}".strip(), sign], width),
    }


def _labels(texts: list[str], width: float) -> list[dict[str, Any]]:
    """Labels, the longest first; each is shown from the width where it fits until a longer one does."""
    found: list[dict[str, Any]] = []
    until = 0
    for words in texts:
        fits = _fits(words, width)
        if words and fits and (not until or fits < until):
            found.append({"text": words, "from": fits, "until": until})
            until = fits
    return found


def _fits(words: str, percent: float) -> int:
    """The smallest plot in which the words fit into ``percent`` of it; 0 for none."""
    needed = (len(words) * _CHARACTER_PX + _PADDING_PX) * 100 / max(percent, 0.001)
    return next((plot for plot in FITS if plot >= needed), 0)


def _marks(story: Story, scale: _Scale) -> list[dict[str, Any]]:
    """Moments of the change, in two rows of labels; a label shows where it does not run into its neighbour."""
    marks: list[dict[str, Any]] = []
    ends = {0: 0.0, 1: 0.0}
    for event in story.events:
        if event.kind not in ("begin", "apply", "confirm", "rollback") or event.began is None:
            continue
        at = event.ended if event.kind == "confirm" and event.ended is not None else event.began
        words = event.kind if event.result == "ok" else f"✕ {event.kind}"
        x = scale.x(at)
        if any(mark["x"] == x and mark["text"] == words for mark in marks):
            continue  # the same verb on another machine
        needed_px = len(words) * _CHARACTER_PX + 2 * _PADDING_PX
        left = x + needed_px / 9 > 100
        # In the row in which it fits into 900 pixels.
        begin = x - needed_px / 9 if left else x
        row = 0 if begin >= ends[0] else 1
        ends[row] = x if left else x + needed_px / 9
        tone = "failed" if event.result != "ok" else event.kind
        marks.append({"x": x, "text": words, "row": row, "left": left, "kind": tone, "title": event.said})
    for mark in marks:
        rivals = [other["x"] for other in marks if other is not mark and other["row"] == mark["row"]]
        if mark["left"]:
            room = mark["x"] - max([x for x in rivals if x <= mark["x"]], default=0.0)
        else:
            room = min([x for x in rivals if x >= mark["x"]], default=100.0) - mark["x"]
        mark["from"] = _fits(mark["text"], room) or FITS[-1]
    return marks


def _band(outage: Optional[Outage], scale: _Scale, ended: float) -> Optional[dict[str, Any]]:
    if outage is None:
        return None
    x = scale.x(outage.began)
    end = outage.ended if outage.ended is not None else ended
    width = max(_SMALLEST, scale.x(end) - x)
    words = f"outage {wording.duration(outage.seconds)}" if outage.seconds is not None else "outage, not over"
    middle = x + width / 2
    # Words in the middle of a narrow band at an edge would run out of the plot.
    anchor = "start" if middle < 20 else "end" if middle > 80 else "middle"
    at = {"start": x, "end": x + width, "middle": middle}[anchor]
    return {"x": x, "width": width, "text": words, "open": outage.ended is None, "at": round(at, 3), "anchor": anchor}


def _ticks(scale: _Scale) -> list[dict[str, Any]]:
    step = next((item for item in _TICKS_S if scale.span_s / item <= _MOST_TICKS), scale.span_s / _MOST_TICKS)
    ticks = []
    for count in range(int(scale.span_s / step) + 1):
        at = count * step
        x = scale.x(scale.began + at)
        if x <= 100:
            # Every other one is left out where there is little room; none may run out of the plot.
            minor, last = count % 2 == 1, x > 94
            ticks.append({"x": x, "text": _tick(at), "minor": minor, "last": last})
    return ticks


def _tick(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g} s"
    minutes = seconds / 60
    return f"{minutes:g} min" if minutes < 120 else f"{minutes / 60:g} h"


def _told(story: Story, lanes: list[dict[str, Any]], outage: Optional[Outage], scale: _Scale) -> str:
    """The drawing in words, for those who do not see it."""
    parts = [f"{wording.duration(scale.span_s)} in all"]
    for lane in lanes:
        shown = [bar["title"].split(":")[0] for bar in lane["bars"] if bar["kind"] != "way"]
        parts.append(f"{lane['name']}: {', '.join(shown)}")
    if outage is not None:
        over = outage.seconds is not None
        parts.append(
            f"outage of the deployment {wording.duration(outage.seconds)}" if over else "the outage is not over"
        )
    return ". ".join(parts) + "."
