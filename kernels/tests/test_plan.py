# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The planner: knobs, policies, properties, golden plans. Needs neither torch nor triton."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdops_kernels.book import RECORDED, PlanBook
from pdops_kernels.configs import CONFIGS, KINDS
from pdops_kernels.knobs import POLICIES, KnobError, Knobs, read_knobs
from pdops_kernels.machine import MACHINES, machine_for, occupancy
from pdops_kernels.plan import MAX_AUTO_SPLITS, Plan, Shape, Table, make_plan, model_us, read_table, split_range
from pdops_kernels.plan_report import main as report

RTX = MACHINES["rtx-pro-6000"]
FIELD = Shape("mla_packed", 64, 16, (512, 128))

shapes = st.builds(
    lambda kind, rows, heads, kv, caps: Shape(
        kind, rows, heads * kv if KINDS[kind].family == "gqa" else heads,
        tuple(caps) if KINDS[kind].family == "mla" else (caps[0],), kv if KINDS[kind].family == "gqa" else 1,
    ),
    st.sampled_from(sorted(KINDS)), st.integers(1, 160), st.integers(1, 80), st.integers(1, 8),
    st.lists(st.integers(1, 4096), min_size=1, max_size=2),
)  # fmt: skip
machines = st.sampled_from(sorted(MACHINES)).map(MACHINES.__getitem__)
knobs = st.builds(
    Knobs,
    st.sampled_from(POLICIES),
    st.integers(1, 4096),
    st.integers(1, 300),
    st.sampled_from([64, 128, 192, 256, 1024]),
)


@settings(max_examples=150, deadline=None)
@given(shapes, machines, knobs, st.data())
def test_every_tile_belongs_to_exactly_one_split(shape: Shape, machine, knobs: Knobs, data: st.DataObject) -> None:  # type: ignore[no-untyped-def]
    plan = make_plan(shape, machine, knobs)
    total = data.draw(st.integers(0, plan.tiles))  # what the row really has
    covered = [t for s in range(plan.splits) for t in range(*split_range(s, total, plan.splits, plan.tiles_per_split))]
    assert covered == list(range(total))


@settings(max_examples=150, deadline=None)
@given(shapes, machines, knobs)
def test_bounds_and_workspace(shape: Shape, machine, knobs: Knobs) -> None:  # type: ignore[no-untyped-def]
    plan = make_plan(shape, machine, knobs)
    assert 1 <= plan.splits <= plan.tiles
    assert plan.tiles * plan.config.block_n >= sum(shape.caps)
    assert plan.grid[0] == shape.rows * plan.blocks_per_row and plan.grid[1] == plan.splits
    assert plan.blocks_per_row * plan.config.block_h >= shape.heads
    assert plan.direct == (plan.splits == 1 and plan.policy != "leaf")
    lses = 0 if plan.direct else shape.rows * shape.heads * plan.splits
    assert (plan.partial_lse_numel, plan.partial_out_numel) == (lses, lses * KINDS[shape.kind].dim)
    assert 0 < plan.fill <= 1 and plan.modelled_us > 0
    json.dumps(plan.summary())
    assert plan == make_plan(shape, machine, knobs)


@settings(max_examples=100, deadline=None)
@given(shapes, machines, st.integers(1, 4096))
def test_target_is_met_exactly_by_the_documented_rounding(shape: Shape, machine, target: int) -> None:  # type: ignore[no-untyped-def]
    plan = make_plan(shape, machine, Knobs("target", target))
    base = plan.grid[0]
    if plan.splits < plan.tiles:
        assert plan.ctas >= target > plan.ctas - base or plan.splits == 1
    else:
        assert (plan.splits - 1) * base < target or plan.splits == 1


@settings(max_examples=60, deadline=None)
@given(shapes, machines, st.integers(1, 4096))
def test_auto_is_never_modelled_slower_than_a_target(shape: Shape, machine, target: int) -> None:  # type: ignore[no-untyped-def]
    auto = make_plan(shape, machine, Knobs("auto"))
    other = make_plan(shape, machine, Knobs("target", target))
    assert auto.splits <= MAX_AUTO_SPLITS
    if other.splits <= MAX_AUTO_SPLITS:
        assert auto.modelled_us <= other.modelled_us


@settings(max_examples=60, deadline=None)
@given(shapes, st.integers(1, 160), st.sampled_from([64, 128, 512]))
def test_leaf_depends_on_the_row_alone(shape: Shape, rows: int, leaf: int) -> None:
    a = make_plan(shape, RTX, Knobs("leaf", leaf_tokens=leaf))
    b = make_plan(replace(shape, rows=rows), MACHINES["rtx-5090"], Knobs("leaf", leaf_tokens=leaf))
    assert (a.splits, a.tiles_per_split, a.config, a.direct) == (b.splits, b.tiles_per_split, b.config, b.direct)


def test_the_model_never_beats_the_memory() -> None:
    for config in CONFIGS:
        arch = max(config.budgets)
        machine = machine_for(arch, 188)
        shape = Shape(config.kind, 512, config.block_h, (2048,))
        least = 512 * 2048 * KINDS[config.kind].bytes_per_token / machine.dram_gbs / 1e3
        assert all(model_us(machine, shape, config, s) >= least for s in (1, 4, 16))


def test_model_agrees_in_direction_with_the_known_ab() -> None:
    """512 over 256 CTAs: faster at 64 rows, no slower at 96, equal at 1 (reference: one reported A/B)."""

    def us(rows: int, target: int) -> float:
        return make_plan(Shape("mla_packed", rows, 16, (512, 128)), RTX, Knobs("target", target)).modelled_us

    gain = {rows: us(rows, 256) / us(rows, 512) for rows in (1, 64, 96)}
    assert gain[64] > gain[96] >= 1.0 and gain[1] == 1.0


def test_fields_case_by_hand() -> None:
    for rows, target, splits, waves in (
        (64, 256, 4, 1.362),
        (64, 512, 8, 2.723),
        (96, 256, 3, 1.532),
        (96, 512, 6, 3.064),
    ):
        plan = make_plan(Shape("mla_packed", rows, 16, (512, 128)), RTX, Knobs("target", target))
        assert (plan.splits, round(plan.waves, 3)) == (splits, waves)


def test_occupancy_by_hand() -> None:
    assert occupancy(120, regs=255, smem=0, warps=4) == 2
    assert occupancy(120, regs=128, smem=37 * 1024, warps=4) == 2
    assert occupancy(120, regs=32, smem=99 * 1024 + 1, warps=4) == 0
    assert occupancy(90, regs=32, smem=0, warps=4) == 16


def test_every_served_config_fits_where_it_is_served() -> None:
    assert all(c.occupancy(arch) >= 1 for c in CONFIGS for arch in c.budgets)


GOLDEN = Path(__file__).parent / "golden" / "plans.json"


def golden_plans() -> list[dict[str, object]]:
    found = []
    for name in ("rtx-pro-6000", "rtx-5090", "h100"):
        for policy in (Knobs("target", 256), Knobs("target", 512), Knobs("auto"), Knobs("leaf")):
            for rows in (1, 4, 16, 64, 96, 128):
                for heads, caps in ((16, (512, 128)), (32, (640,)), (64, (2048, 128))):
                    plan = make_plan(Shape("mla_packed", rows, heads, caps), MACHINES[name], policy)
                    s = plan.summary()
                    found.append(
                        {"machine": name, "knobs": f"{policy.policy} {policy.target_ctas}"}
                        | {
                            k: s[k]
                            for k in (
                                "bucket",
                                "config",
                                "splits",
                                "grid",
                                "waves",
                                "fill",
                                "workspace_bytes",
                                "modelled_us",
                            )
                        }
                    )
    return found


def test_golden_plans() -> None:
    """188, 170 and 132 SMs. After a wanted change: `python tests/test_plan.py`, and read the diff."""
    assert golden_plans() == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (
            {"SGLANG_SM120_MMA_TARGET_CTAS": "many"},
            "SGLANG_SM120_MMA_TARGET_CTAS='many' is not a whole number from 1 to 65536",
        ),
        ({"SGLANG_SM120_MMA_TARGET_CTAS": "0"}, "SGLANG_SM120_MMA_TARGET_CTAS='0'"),
        ({"SGLANG_SM120_MMA_TARGET_CTAS": ""}, "correct it or unset it"),
        ({"SGLANG_SM120_MMA_TARGET_CTAS": "-256"}, "'-256'"),
        ({"SGLANG_SM120_MMA_TARGET_CTAS": "٢٥٦"}, "is not a whole number"),
        ({"PDOPS_KERNELS_POLICY": "fast"}, "not one of auto, target, fixed, leaf"),
        ({"PDOPS_KERNELS_POLICY": "fixed"}, "needs PDOPS_KERNELS_SPLITS"),
        ({"PDOPS_KERNELS_LEAF_TOKENS": "100"}, "not a multiple of 64"),
        ({"PDOPS_KERNELS_STRICT": "yes"}, "not 0 or 1"),
        ({"SGLANG_SM120_MMA_TARGET_CTAS": "9" * 5000}, "is not a whole number"),
        ({"PDOPS_KERNELS_SPLIT": "4"}, "PDOPS_KERNELS_SPLIT is not a variable of this package"),
        ({"PDOPS_KERNELS_POLICY": "fixed", "PDOPS_KERNELS_SPLITS": "1025"}, "from 1 to 1024"),
        ({"PDOPS_KERNELS_LEAF_TOKENS": "65600"}, "from 64 to 65536"),
    ],
)
def test_bad_knobs_stop_with_one_sentence(env: dict[str, str], sentence: str) -> None:
    with pytest.raises(KnobError) as caught:
        read_knobs(env)
    assert sentence in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"policy": "fast"}, "policy 'fast'"), ({"target_ctas": 0}, "target of CTAs of 0"),
        ({"fixed_splits": 0}, "splits of 0"), ({"fixed_splits": 1025}, "splits of 1025"),
        ({"leaf_tokens": 0}, "tokens of 0"), ({"leaf_tokens": 100}, "100 tokens is not a multiple of 64"),
    ],
)  # fmt: skip
def test_knobs_out_of_bounds_cannot_be_made(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(KnobError, match=sentence):
        Knobs(**values)  # type: ignore[arg-type] # wrong values are the point


def test_a_variable_that_the_policy_does_not_read_is_named(caplog: pytest.LogCaptureFixture) -> None:
    env = {"SGLANG_SM120_MMA_TARGET_CTAS": "512", "PDOPS_KERNELS_SPLITS": "4", "PDOPS_KERNELS_POLICY": "leaf"}
    knobs = read_knobs(env)
    assert knobs.without_effect == ("SGLANG_SM120_MMA_TARGET_CTAS", "PDOPS_KERNELS_SPLITS")
    PlanBook(RTX, knobs)
    assert "policy leaf does not read SGLANG_SM120_MMA_TARGET_CTAS, PDOPS_KERNELS_SPLITS" in caplog.text
    assert read_knobs({"SGLANG_SM120_MMA_TARGET_CTAS": "512"}).without_effect == ()


def test_figures_that_no_machine_has_are_refused() -> None:
    for change in (
        lambda: RTX.with_sms(0),
        lambda: RTX.with_sms(-188),
        lambda: machine_for(120, 10**6),
        lambda: machine_for(75, 46),
        lambda: replace(RTX, tile_us=float("nan")),
        lambda: replace(RTX, dram_gbs=0.0),
    ):
        with pytest.raises(ValueError, match=r"\.$"):
            change()


def test_splits_that_would_overflow_on_the_device_are_refused() -> None:
    long = Shape("gqa_128", 1, 8, (60_000 * 64,))
    assert make_plan(long, RTX, Knobs("target", 30_000)).splits == 30_000
    with pytest.raises(ValueError, match="overflow 32 bits"):
        make_plan(long, RTX, Knobs("target", 60_000))


def test_policy_follows_the_knob() -> None:
    assert read_knobs({}) == Knobs("auto", 256)
    assert read_knobs({"SGLANG_SM120_MMA_TARGET_CTAS": "512"}) == Knobs("target", 512)
    assert read_knobs({"PDOPS_KERNELS_POLICY": "target"}) == Knobs("target", 256)
    assert read_knobs({"PDOPS_KERNELS_POLICY": "auto", "SGLANG_SM120_MMA_TARGET_CTAS": "512"}).policy == "auto"


@pytest.mark.parametrize(
    "shape",
    [
        Shape("mla", 1, 16, (64,)), Shape("mla_packed", 0, 16, (64,)), Shape("mla_packed", 1, 16, ()),
        Shape("mla_packed", 1, 16, (64, 64, 64)), Shape("gqa_128", 1, 16, (64,), 3), Shape("mla_576", 1, 16, (64,), 2),
        Shape("gqa_128", 1, 16, (64, 64), 2), Shape("mla_packed", 1, 16, (0,)),
    ],
)  # fmt: skip
def test_shapes_without_a_kernel_are_refused(shape: Shape) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        make_plan(shape, RTX, Knobs())


def test_table_wins_over_the_model_only_for_its_bucket_machine_and_policy(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps({"arch": 120, "sms": 188, "constants": {"tile_us": 3.0}, "buckets": {FIELD.key: 7}}))
    table = read_table(str(path))
    assert make_plan(FIELD, RTX, Knobs("auto"), table).splits == 7
    assert "measured 7" in make_plan(FIELD, RTX, Knobs("auto"), table).reason
    assert make_plan(FIELD, RTX, Knobs("target", 256), table).splits == 4
    assert "fitted model" in make_plan(Shape("mla_packed", 63, 16, (512, 128)), RTX, Knobs("auto"), table).reason
    with pytest.raises(KnobError, match="calibrate on this host"):
        make_plan(FIELD, MACHINES["rtx-5090"], Knobs("auto"), table)
    fine = {"arch": 120, "sms": 188, "constants": {}, "buckets": {}}
    for what in ({"constants": {"tile_us": float("nan")}}, {"constants": {"tile_us": float("inf")}},
                 {"buckets": {FIELD.key: 7.9}}, {"buckets": {FIELD.key: 0}}, {"sms": "188"}):  # fmt: skip
        path.write_text(json.dumps(fine | what))
        with pytest.raises(KnobError, match="write it anew with calibrate"):
            read_table(str(path))
    for bad in ("{", "[]", '{"arch": 120}', json.dumps({"arch": 120, "sms": 1, "constants": {"x": 1}, "buckets": {}})):
        path.write_text(bad)
        with pytest.raises(KnobError, match="calibrate"):
            read_table(str(path))
    with pytest.raises(KnobError, match="cannot be read"):
        read_table(str(tmp_path / "none"))
    assert Table(120, 188).apply(RTX).calibrated


def test_book_logs_a_bucket_once_and_counts_fallbacks(caplog: pytest.LogCaptureFixture) -> None:
    book = PlanBook(RTX, Knobs("target", 512))
    with caplog.at_level("INFO", "pdops_kernels"):
        for _ in range(3):
            assert isinstance(book.plan(FIELD), Plan)
            book.fell_back("rows")
    assert [r.levelname for r in caplog.records] == ["INFO", "WARNING"]
    assert "8 splits, grid 64x8" in caplog.text and "2.72 waves" in caplog.text
    assert [p["splits"] for p in book.resolved()] == [8] and book.fallbacks["rows"] == 3


def test_thousands_of_shapes_do_not_grow_the_record(caplog: pytest.LogCaptureFixture) -> None:
    book, written = PlanBook(RTX, Knobs("fixed", fixed_splits=2)), []
    book.on_change = lambda: written.append(len(book.resolved()))
    with caplog.at_level("INFO", "pdops_kernels"):
        for rows in range(1, RECORDED + 50):
            assert book.plan(replace(FIELD, rows=rows)).shape.rows == rows
    assert len(book.resolved()) == len(written) == RECORDED and len(caplog.records) == RECORDED + 1
    assert "neither logged nor recorded" in caplog.text


def test_report_shows_the_fields_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([]) == 0
    text = capsys.readouterr().out
    assert "grid 64x4" in text and "grid 96x6" in text and "modelled, not measured" in text
    assert all("modelled" in line for line in text.splitlines() if " us" in line)
    assert report(["--json", "--sms", "170", "--policies", "leaf:64,fixed:3"]) == 0
    assert [p["splits"] for p in json.loads(capsys.readouterr().out)["plans"]] == [10, 3, 10, 3]
    bad = ["--policies fast", "--policies fixed:0", "--policies leaf:100", "--policies 0", "--topk 0 --json", "--rows 64,",
           "--rows 0", "--sms 0", "--sms -3", "--arch 75", "--heads 0", "--kind gqa_96", "--topk 1+2+3"]  # fmt: skip
    for options in bad:
        assert report(options.split()) == 2, options
    assert len(capsys.readouterr().err.splitlines()) == len(bad)


def test_planning_imports_neither_torch_nor_triton() -> None:
    code = "import sys, pdops_kernels.plan_report as r; r.main([]); assert not {'torch', 'triton', 'numpy'} & set(sys.modules)"
    src = str(Path(__file__).parents[1] / "src")
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env={"PYTHONPATH": src})


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(golden_plans(), indent=0) + "\n")
