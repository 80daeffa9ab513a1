# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Counters, gauges and histograms in Prometheus' text form, with the names and labels of the real engine.

As there, a counter with labels is absent until it first moves: num_transfer_failed_reqs_total is not a zero on a
healthy engine, it is not there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

Labels = tuple[tuple[str, str], ...]
# Recorded from 0.5.23.
_BUCKETS: dict[str, tuple[float, ...]] = {
    "time_to_first_token_seconds": (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400),
    "e2e_request_latency_seconds": (
        0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400,
    ),
    "inter_token_latency_seconds": (0.002, 0.004, 0.006, 0.008, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 1, 2, 4, 8),
    "queue_time_seconds": (0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 3000),
}  # fmt: skip
_KV_BUCKETS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0)


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

    def observe(self, name: str, value: float, scope: str = "rank", **labels: str) -> None:
        series = self._histograms.setdefault(name, {})
        key = self._labels(scope, labels)
        if key not in series:
            series[key] = _Histogram(_BUCKETS.get(name, _KV_BUCKETS))
        series[key].observe(value)

    def page(self) -> str:
        lines: list[str] = []
        for name, series in self._values.items():
            lines.append(f"# TYPE sglang:{name} {self._kinds[name]}")
            lines += [f"sglang:{name}{_text(labels)} {value!r}" for labels, value in series.items()]
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
