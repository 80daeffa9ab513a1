# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Counters, gauges and histograms in Prometheus' text form, with the names and labels of the real engine.

As there, a counter with labels is absent until it first moves: num_transfer_failed_reqs_total is not a zero on a
healthy engine, it is not there.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Labels = tuple[tuple[str, str], ...]
#: By family: type, scope, buckets, and the series of an idle prefill and decode (label sets, values). Condensed from
#: recordings of 0.5.23; a family without series comes with the first request. Those of http_* are counted from zero.
SHAPES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "shapes" / "metrics.json").read_text())
#: Not recorded.
_INTER_TOKEN = (0.002, 0.004, 0.006, 0.008, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 1, 2, 4, 8)
_KV_BUCKETS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0)


def _buckets(name: str) -> tuple[float, ...]:
    if name == "inter_token_latency_seconds":
        return _INTER_TOKEN
    return tuple(SHAPES.get(name, {}).get("buckets", _KV_BUCKETS))


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(float(value))


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def _text(labels: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels)) + "}"


class Metrics:
    """Names are given without the prefix "sglang:"; labels without those that all have."""

    def __init__(self, role: str, model: str) -> None:
        self._request = {"engine_type": {"null": "unified"}.get(role, role), "model_name": model}
        self._rank = {**self._request, "moe_ep_rank": "0", "pp_rank": "0", "tp_rank": "0"}
        self._values: dict[str, dict[Labels, float]] = {}
        self._kinds: dict[str, str] = {}
        self._histograms: dict[str, dict[Labels, _Histogram]] = {}
        self._seed("prefill" if role == "prefill" else "decode", SHAPES)

    def _seed(self, role: str, names: Iterable[str]) -> None:
        """What an idle engine of this role shows. What has moved since stays."""
        for name in names:
            shape = SHAPES[name]
            for series in shape.get(role, ()):
                if shape["type"] == "histogram":
                    self._histogram(name, shape["scope"], series)
                    continue
                labels, value = series
                self._kinds.setdefault(name, shape["type"])
                key = self._labels(shape["scope"], labels)
                self._values.setdefault(name, {}).setdefault(key, float(value))

    def publish(self) -> None:
        """The scheduler's gauges, which a decode shows only after its first decode_log_interval steps."""
        self._seed("prefill", (name for name, shape in SHAPES.items() if shape["type"] == "gauge"))

    def _labels(self, scope: str, labels: Mapping[str, str]) -> Labels:
        """scope: "rank" for the scheduler's, "request" for the tokenizer manager's, "" for none."""
        common = {"rank": self._rank, "request": self._request, "": {}}[scope]
        return tuple(sorted({**common, **labels}.items()))

    def count(self, name: str, amount: float = 1.0, scope: str = "rank", **labels: str) -> None:
        series = self._values.setdefault(name, {})
        self._kinds[name] = "counter"
        key = self._labels(scope, labels)
        series[key] = series.get(key, 0.0) + amount

    def gauge(self, name: str, value: float, scope: str = "rank", **labels: str) -> None:
        self._kinds[name] = "gauge"
        self._values.setdefault(name, {})[self._labels(scope, labels)] = float(value)

    def total(self, name: str, value: float, scope: str = "rank", **labels: str) -> None:
        """A counter that is kept elsewhere."""
        self.gauge(name, value, scope, **labels)
        self._kinds[name] = "counter"

    def _histogram(self, name: str, scope: str, labels: Mapping[str, str]) -> _Histogram:
        series = self._histograms.setdefault(name, {})
        key = self._labels(scope, labels)
        if key not in series:
            series[key] = _Histogram(_buckets(name))
        return series[key]

    def observe(self, name: str, value: float, scope: str = "rank", **labels: str) -> None:
        self._histogram(name, scope, labels).observe(value)

    def page(self) -> str:
        lines: list[str] = []
        for name, series in self._values.items():
            lines.append(f"# TYPE sglang:{name} {self._kinds[name]}")
            lines += [f"sglang:{name}{_text(labels)} {_number(value)}" for labels, value in series.items()]
        for name, histograms in self._histograms.items():
            lines.append(f"# TYPE sglang:{name} histogram")
            for labels, histogram in histograms.items():
                lines.append(f"sglang:{name}_sum{_text(labels)} {histogram.total!r}")
                seen = 0
                for bound, amount in zip((*histogram.bounds, None), histogram.counts):
                    seen += amount
                    limit = "+Inf" if bound is None else repr(float(bound))
                    lines.append(f"sglang:{name}_bucket{_text([*labels, ('le', limit)])} {float(seen)!r}")
                lines.append(f"sglang:{name}_count{_text(labels)} {float(seen)!r}")
        return "\n".join(lines) + "\n"
