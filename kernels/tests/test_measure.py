# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The arithmetic behind bench and calibrate, on made-up times: the measuring itself needs a GPU and is not run here."""

from __future__ import annotations

import json
import random
import xml.dom.minidom
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pdops_kernels.bench import plots, summary
from pdops_kernels.calibrate import best_splits, fit, table_of
from pdops_kernels.configs import config_for
from pdops_kernels.knobs import Knobs
from pdops_kernels.machine import MACHINES
from pdops_kernels.measure import Sample, regret, regret_summary, split_counts, summarize
from pdops_kernels.plan import Shape, make_plan, model_us, read_table

RTX = MACHINES["rtx-pro-6000"]
# A machine that is far from the guesses, to play the one that is measured.
TRUE = replace(RTX, prologue_us=4.0, tile_us=1.5, merge_launch_us=3.0, l2_gbs=3000.0, dram_gbs=1500.0)


def shape(rows: int, caps: tuple[int, ...] = (128, 512)) -> Shape:
    return Shape("mla_packed", rows, 16, caps)


def measured(rows: list[int], noise: float = 0.02) -> list[Sample]:
    rng = random.Random(3)
    config = config_for("mla_packed", 120, 16)
    return [
        Sample(shape(r), n, model_us(TRUE, shape(r), config, n) * rng.uniform(1 - noise, 1 + noise))
        for r in rows
        for n in split_counts(20)
    ]


def test_fit_recovers_a_machine_well_enough_for_buckets_it_has_not_seen() -> None:
    fitted, error = fit(RTX, measured([1, 24, 64, 128]))
    assert error < 0.05 and fitted.calibrated
    config = config_for("mla_packed", 120, 16)
    for rows in (2, 16, 48, 80, 96, 112):
        times = {n: model_us(TRUE, shape(rows), config, n) for n in split_counts(20)}
        chosen = make_plan(shape(rows), fitted, Knobs("auto")).splits
        assert regret(times, chosen) < 0.05, rows


def test_the_measured_winner_is_stored_and_read_back(tmp_path: Path) -> None:
    samples = measured([64, 96])
    samples = [replace(s, us=1.0) if (s.shape.rows, s.splits) == (96, 11) else s for s in samples]
    assert best_splits(RTX, samples)[shape(96).key] == 11
    path = tmp_path / "table.json"
    path.write_text(json.dumps(table_of(RTX, samples)))
    assert make_plan(shape(96), RTX, Knobs("auto"), read_table(str(path))).splits == 11
    with pytest.raises(ValueError, match="Nothing was measured"):
        fit(RTX, [])


def test_regret_by_hand() -> None:
    times = {1: 10.0, 2: 5.0, 4: 8.0}
    assert regret(times, 2) == 0 and regret(times, 1) == 1.0
    assert regret(times, 3) == pytest.approx(0.3) and regret(times, 9) == pytest.approx(0.6)
    assert regret_summary([0.0, 0.1, 0.5]) == {"mean": pytest.approx(0.2), "p95": 0.5, "worst": 0.5, "cases": 3}
    assert summarize([1.0, 2.0, 3.0]).median_us == 2.0
    assert split_counts(5) == [1, 2, 3, 4, 5] and split_counts(500)[-1] == 64


def test_summary_and_plots_of_made_up_cases() -> None:
    def case(rows: int) -> dict[str, object]:
        policies = {
            n: {"regret": r, "median_us": 10.0 + rows * r}
            for n, r in (("auto", 0.0), ("256", 0.2), ("512", 0.1), ("leaf", 0.3))
        }
        others = {
            "torch SDPA on gathered bf16": {"median_us": 30.0},
            "FlashInfer sm_120 sparse MLA": {"skipped": "x"},
            "SGLang Triton": {"skipped": "x"},
        }
        return {
            "heads": 16,
            "caps": [128, 512],
            "rows": rows,
            "best_us": 9.0,
            "bandwidth_limit_us": 3.0,
            "policies": policies,
            "others": others,
        }

    cases = [case(1), case(64)]
    regrets = summary(cases)
    assert regrets["256"]["worst"] == 0.2
    for name, text in plots(cases, regrets).items():
        assert name.endswith(".svg") and "measured" in text
        xml.dom.minidom.parseString(text)


def test_a_bench_case_runs_through_with_the_clock_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real inputs, real launches in the interpreter, made-up times: shows that the calls are right, no more."""
    import torch

    from pdops_kernels import bench, measure, packed, reference

    def clock(launches, replays: int = 0) -> measure.Timing:  # type: ignore[no-untyped-def]
        launches[0]()
        return measure.Timing(10.0, 9.0, 11.0, replays)

    monkeypatch.setattr(bench, "time_launches", clock)
    monkeypatch.setattr(measure, "time_launches", clock)
    small = Shape("mla_packed", 2, 16, (64, 32))
    found = bench.case(small, RTX, 10_000, (64, 64), 1000.0, 3, "cpu")
    assert list(found["sweep"]) == [1, 2, 3] and found["kv_bytes"] == 2 * 96 * 584
    assert found["policies"]["256"]["splits"] == 3 and found["policies"]["auto"]["regret"] == 0
    assert found["others"]["torch SDPA on gathered bf16"]["median_us"] == 10.0
    assert "not installed" in found["others"]["FlashInfer sm_120 sparse MLA"]["skipped"]
    json.dumps(found)

    inputs = measure.PackedInputs(small, RTX, 10_000, (64, 64), "cpu")
    inputs.launches(make_plan(small, RTX, Knobs("target", 256)))[1]()
    streams = [(packed.unpack(s.kv, 64), s.indices, s.lengths) for s in inputs.streams[1]]
    want, _ = reference.mla(inputs.q, streams, 512**-0.5, sink=inputs.sink)
    assert (inputs.out.double() - want).norm() / want.norm() < 1e-2
    assert not torch.equal(inputs.streams[0][0].indices, inputs.streams[1][0].indices)


def test_what_needs_a_gpu_says_so(tool: Callable[..., object]) -> None:
    for name in ("bench", "calibrate"):
        done = tool(name, "--json")
        assert done.returncode == 2 and "No CUDA device is visible" in json.loads(done.stderr)["error"]  # type: ignore[attr-defined]
