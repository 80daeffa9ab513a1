# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The tools as commands: compile gate, prewarm, selftest, and the mutation check."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
Tool = Callable[..., "subprocess.CompletedProcess[str]"]


def changed(tmp_path: Path, file: str, old: str, new: str) -> Path:
    """A copy of the sources with one passage replaced; the passage must be there exactly once."""
    copy = tmp_path / "src"
    shutil.copytree(SRC, copy, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / "pdops_kernels" / file
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {file}"
    path.write_text(text.replace(old, new))
    return copy


def test_gate_passes_on_sm_90_and_sm_120(tool: Tool, held: list[str]) -> None:
    done = tool("gate", "--archs", "90,120", "--json")
    report = json.loads(done.stdout)
    bad = [(r["arch"], r["case"], r["problems"]) for r in report["kernels"] if r["problems"]]
    assert done.returncode == 0 and report["ok"] and not bad, bad
    assert {r["arch"] for r in report["kernels"]} == {90, 120}
    splits = [r for r in report["kernels"] if r["kernel"] != "merge_splits"]
    assert all(r["mma"] and not r["local_ops"] and not r["stack"] for r in splits)
    smem = max(r["smem"] for r in splits if r["arch"] == 120)
    assert smem <= 99 * 1024
    held.append(
        f"{len(report['kernels'])} kernels compiled for sm_90 and sm_120 on triton {report['triton']} without spills, "
        f"with MMA, at most {max(r['regs'] for r in splits)} registers and {smem / 1024:.1f} KB on sm_120"
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"mla_packed", 16, 32, 8, 2,', '"mla_packed", 16, 32, 4, 2,', "spills"),
        (
            '"mla_packed", 16, 32, 8, 2, _on((89, 90, 100, 120), 224, 39)',
            '"mla_packed", 16, 32, 8, 2, _on((120,), 160, 39)',
            "over budget",
        ),
    ],
)
def test_gate_fails_on_a_config_that_spills_or_grows(
    quick_tool: Tool, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    src = changed(tmp_path, "configs.py", old, new)
    # only the first served kind, to be quick
    served = src / "pdops_kernels" / "offline.py"
    served.write_text(
        served.read_text().replace(
            "SERVED: tuple[Case, ...] = (", "SERVED: tuple[Case, ...] = (Case('mla_packed', caps=(128,)),)\n_UNUSED = ("
        )
    )
    done = quick_tool("gate", "--archs", "120", src=src)
    assert done.returncode == 1 and problem in done.stdout


def test_prewarm_twice_gives_the_same_binaries_and_compiles_nothing(
    tool: Tool, quick_tool: Tool, tmp_path: Path, held: list[str]
) -> None:
    first, second = (
        json.loads(run("prewarm", "--cache-dir", str(tmp_path / "a"), "--json").stdout) for run in (tool, quick_tool)
    )
    assert first["compiled"] == 3 and (second["compiled"], second["cached"]) == (0, 3)
    copy = changed(tmp_path, "__init__.py", '__version__ = "0.1.0"', '__version__ = "0.1.0"  # elsewhere')
    elsewhere = json.loads(quick_tool("prewarm", "--cache-dir", str(tmp_path / "b"), "--json", src=copy).stdout)
    assert elsewhere["compiled"] == 3
    assert first["kernels"] == second["kernels"] == elsewhere["kernels"]
    held.append("pre-warm twice gives the same binaries")


def test_tools_fail_with_a_code_and_one_sentence(quick_tool: Tool) -> None:
    for name, *args in (
        ("prewarm", "--arch", "75"),
        ("prewarm", "--kind", "gqa_96"),
        ("gate", "--archs", "x"),
        ("gate", "--archs", "75"),  # nothing is served there: not a pass
        ("selftest",),
    ):
        done = quick_tool(name, *args, "--json")
        assert done.returncode != 0
        answer = json.loads(done.stdout or done.stderr)
        assert answer["ok"] is False


def test_selftest_in_the_interpreter(tool: Tool) -> None:
    done = tool("selftest", "--interpret", "--json", SGLANG_SM120_MMA_TARGET_CTAS="512")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["ok"]
    assert [p["splits"] for p in report["plans"]] == [20, 20, 8, 6]


def test_a_bad_knob_stops_the_selftest(quick_tool: Tool) -> None:
    done = quick_tool("selftest", "--interpret", SGLANG_SM120_MMA_TARGET_CTAS="twelve")
    assert done.returncode == 2 and "SGLANG_SM120_MMA_TARGET_CTAS='twelve' is not a whole number" in done.stderr


MUTANTS = {
    "mask: tokens past the length count": ("mla.py", "valid = pos < tl.where(second, length2, length)", "valid = pos < cap"),
    "mask: holes count": ("mla.py", "valid = valid & (slot >= 0)", "valid = valid & (slot >= -1)"),
    "mask: gqa reads past the end": ("gqa.py", "valid = pos < length", "valid = pos < cap"),
    "merge: weights forgotten": ("merge.py", "acc += weight * part.to(tl.float32)", "acc += part.to(tl.float32)"),
    "merge: empty splits are read": ("merge.py", 'mask=lse > float("-inf"), other=0.0', "mask=dims < DIM, other=0.0"),
    "merge: the last split is lost": ("merge.py", "for split in range(0, splits):", "for split in range(0, splits - 1):"),
    "sink: forgotten in the merge": ("merge.py", "safe_sum = safe_sum * (1.0 +", "safe_sum = safe_sum * (1.0 + 0.0 *"),
    "sink: forgotten without merge": ("mla.py", "safe_sum = safe_sum * (1.0 +", "safe_sum = safe_sum * (1.0 + 0.0 *"),
    "deal: a tile is done twice": ("mla.py", "hi = (split + 1) * total // splits", "hi = tl.minimum((split + 1) * total // splits + 1, total)"),
    "softmax: no rescale": ("mla.py", "acc = acc * shrink[:, None]", "acc = acc * 1.0"),
    "packed: scale of the next group": ("mla.py", "(kv + scale_base)[:, None] + group[None, :]", "(kv + scale_base)[:, None] + (group[None, :] + 1) % 7"),
    "streams: pages mixed up": ("mla.py", "page = tl.where(second, slot // PAGE2, slot // PAGE)", "page = slot // PAGE"),
    "speculative rows see the same tokens": ("gqa.py", " - (rows_per_seq - 1 - row % rows_per_seq)", ""),
}  # fmt: skip


# torch and triton are imported once; each mutant is a fork that imports its own copy of the package.
MUTATE = """
import json, os, sys
os.environ['TRITON_INTERPRET'] = '1'
import torch, triton
fates = {}
for name, src in json.loads(sys.argv[1]).items():
    pid = os.fork()
    if pid == 0:
        sys.path.insert(0, src)
        code = 2
        try:
            from pdops_kernels import numerics, selftest
            from pdops_kernels.knobs import Knobs
            ok = True
            for which, problem in selftest.problems(True).items():
                ok = ok and numerics.run(problem, Knobs('fixed', fixed_splits=1 if 'direct' in which else 3)).ok
            code = 0 if ok else 1
        except BaseException as error:
            print(name, repr(error), file=sys.stderr, flush=True)
        os._exit(code)
    fates[name] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps(fates))
"""


def test_every_mutant_is_killed(tmp_path: Path, held: list[str]) -> None:
    """Break one thing at a time; the numerics must notice. One interpreter process per mutant, the selftest's problems."""
    sources = {name: changed(tmp_path / str(i), *change) for i, (name, change) in enumerate(MUTANTS.items())}
    places = {name: str(src) for name, src in sources.items()} | {"untouched": str(SRC)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MUTATE, json.dumps(places)],
        env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    fates = json.loads(done.stdout)
    assert fates.pop("untouched") == 0, done.stderr[-2000:]
    survivors = {name: code for name, code in fates.items() if code != 1}
    assert not survivors
    held.append(f"{len(MUTANTS)} of {len(MUTANTS)} mutants killed")
