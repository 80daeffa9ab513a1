# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Two plain SVG charts, without a plotting library: lines on log-log axes, and bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

COLORS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#9498a0", "#a463f2", "#97bbf5", "#9c6b4e")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 460, 70, 250, 40, 50


def _frame(title: str, body: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">'
    back = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>'
    return "\n".join([head, back, *body, "</svg>\n"])


def _ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 x powers of ten within [low, high]."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]


def lines(title: str, x_name: str, y_name: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Log-log line chart; every x and y must be positive."""
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    x0, x1, y0, y1 = min(xs) / 1.1, max(xs) * 1.1, min(ys) / 1.2, max(ys) * 1.2
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + wide * math.log(x / x0) / math.log(x1 / x0),
            HEIGHT - BOTTOM - high * math.log(y / y0) / math.log(y1 / y0),
        )

    body = []
    for x in _ticks(x0, x1):
        px, _ = at(x, y0)
        body.append(f'<line x1="{px:.1f}" x2="{px:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        body.append(f'<text x="{px:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:g}</text>')
    for y in _ticks(y0, y1):
        _, py = at(x0, y)
        body.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py:.1f}" y2="{py:.1f}" stroke="#ddd"/>')
        body.append(f'<text x="{LEFT - 6}" y="{py + 4:.1f}" text-anchor="end">{y:g}</text>')
    body.append(f'<text x="{LEFT + wide / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_name)}</text>')
    body.append(
        f'<text x="16" y="{TOP + high / 2}" transform="rotate(-90 16 {TOP + high / 2})" text-anchor="middle">{escape(y_name)}</text>'
    )
    for i, (name, points) in enumerate(series.items()):
        color, dash = COLORS[i % len(COLORS)], "" if i < len(COLORS) else ' stroke-dasharray="5 3"'
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*p) for p in sorted(points)))
        body.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')
        body.append(f'<text x="{WIDTH - RIGHT + 12}" y="{TOP + 14 + 18 * i}" fill="{color}">{escape(name)}</text>')
    return _frame(title, body)


def bars(title: str, unit: str, values: Mapping[str, float]) -> str:
    """Horizontal bars with their values."""
    most = max([*values.values(), 1e-9])
    step = (HEIGHT - TOP - 20) / len(values)
    body = []
    for i, (name, value) in enumerate(values.items()):
        y = TOP + 10 + step * i
        length = (WIDTH - 180 - 110) * max(value, 0.0) / most
        body.append(f'<text x="170" y="{y + step * 0.55:.1f}" text-anchor="end">{escape(name)}</text>')
        body.append(
            f'<rect x="180" y="{y:.1f}" width="{length:.1f}" height="{step * 0.7:.1f}" fill="{COLORS[i // 3 % len(COLORS)]}"/>'
        )
        body.append(f'<text x="{186 + length:.1f}" y="{y + step * 0.55:.1f}">{value:.1f} {escape(unit)}</text>')
    return _frame(title, body)
