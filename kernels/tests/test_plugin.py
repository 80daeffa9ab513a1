# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The wheel's entry point in the real SGLang 0.5.23 on CPU: its loader, its hook registry, its leaf function.

What does not run here: SGLang's model runner around that function, and a GPU. The kernel runs in the interpreter and
is compared with SGLang's own torch implementation on SGLang's own cache view.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from forks import Forks

ROOT = Path(__file__).parents[1]
SGLANG = ROOT / ".cache" / "sglang"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, held: list[str]) -> Path:
    """Our wheel, built twice (equal bytes) and unpacked as pip would."""
    place = tmp_path_factory.mktemp("wheel")
    wheels = []
    for name, umask, zone in (("a", "022", "UTC"), ("b", "077", "Asia/Tokyo")):
        build = ["sh", "-c", f'umask {umask}; exec "$0" "$1"', ROOT / "tools" / "wheel", place / name]
        subprocess.run(build, check=True, env=dict(os.environ, TZ=zone))
        wheels += list((place / name).glob("*.whl"))
    assert len(wheels) == 2 and len({hashlib.sha256(w.read_bytes()).digest() for w in wheels}) == 1
    assert wheels[0].name == "pdops_kernels-0.1.0-py3-none-any.whl"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", place / "site", wheels[0]], check=True
    )
    held.append("wheel built twice, under two umasks and time zones, with equal bytes")
    return place / "site"


def test_wheel_names_triton_and_not_torch(installed: Path) -> None:
    text = next(installed.glob("pdops_kernels-*.dist-info/METADATA")).read_text()
    wanted = [line for line in text.splitlines() if line.startswith("Requires-Dist")]
    assert wanted == ["Requires-Dist: triton<3.10,>=3.7.1"]


Serve = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def serve(installed: Path, interpreting: Forks, tmp_path: Path) -> Serve:
    """Run code in a process that sees our wheel and the real SGLang."""
    if not (SGLANG / "ready").exists():
        pytest.skip("the real SGLang is not installed: tools/setup-sglang says why")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON", "PDOPS", "SGLANG"))}

    def call(
        code: str, *, first: Path | None = None, whole: bool = False, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """`whole` starts a Python as a server does; else it is a fork of one that has torch and triton."""
        env = clean | {
            "PYTHONPATH": ":".join(str(p) for p in (first, installed, SGLANG) if p),
            "TRITON_INTERPRET": "1",
            "PDOPS_KERNELS_MACHINE": "rtx-pro-6000",
            "PYTHONWARNINGS": "ignore",
            **more,
        }
        if not whole:
            return interpreting.run(env, tmp_path, code=code)
        return subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=1800, check=False
        )

    return call


LOAD = """
from sglang.srt.plugins import load_plugins
load_plugins()
from sglang.kernels.ops.attention import flash_mla_sm120 as m
"""

CALLS = (
    LOAD
    + """
import torch
from pdops_kernels import packed
torch.manual_seed(1)
def cache(pages, page):
    raw = packed.pack(torch.randn(pages * page, 512), page)
    return raw.as_strided((pages, page, 1, 584), (raw.stride(0), 584, 584, 1)).view(torch.float8_e4m3fn)
rows, heads = 3, 16
window, extra = cache(2, 256), cache(5, 64)
def lists(n, slots, lengths):
    idx = torch.stack([torch.randperm(slots)[:n] for _ in range(rows)]).to(torch.int32)
    idx[0, 5] = -1
    return idx.unsqueeze(1), torch.tensor(lengths, dtype=torch.int32)
idx, n = lists(128, 512, [128, 70, 0])
idx2, n2 = lists(64, 320, [64, 1, 0])
kw = dict(q=torch.randn(rows, 1, heads, 512).bfloat16(), k_cache=window, head_dim_v=512, softmax_scale=0.05, indices=idx,
          topk_length=n, attn_sink=torch.randn(heads), extra_k_cache=extra, extra_indices_in_kvcache=idx2, extra_topk_length=n2)
def stock(**k):
    return m._sm120_sparse_decode_fwd(k['q'], k['k_cache'], k['indices'], k['topk_length'], k['attn_sink'], 512, 0.05,
                                      k.get('extra_k_cache'), k.get('extra_indices_in_kvcache'), k.get('extra_topk_length'))
for drop in ((), ('extra_k_cache', 'extra_indices_in_kvcache', 'extra_topk_length')):
    k = {a: b for a, b in kw.items() if a not in drop}
    out, lse = m.flash_mla_with_kvcache_sm120(**k)
    want, want_lse = stock(**k)
    assert out.shape == want.shape and out.dtype == want.dtype and lse.shape == want_lse.shape, (out.shape, lse.shape, want_lse.shape)
    error = ((out.double() - want.double()).norm() / want.double().norm()).item()
    assert error < 1e-2, error
    live = torch.isfinite(want_lse)
    assert torch.equal(live, torch.isfinite(lse)) and (lse[live] - want_lse[live]).abs().max() < 1e-2
m._sm120_default_backend = 'torch'
long = dict(kw, topk_length=None)
m.flash_mla_with_kvcache_sm120(**long)
m.flash_mla_with_kvcache_sm120(**long)
# what would be read as other numbers goes to the stock kernel
m.flash_mla_with_kvcache_sm120(**dict(kw, k_cache=window.view(torch.float8_e5m2)))
m.flash_mla_with_kvcache_sm120(**dict(kw, k_cache=window.as_strided(window.shape, (window.stride(0), 585, 585, 1))))
m.flash_mla_with_kvcache_sm120(**dict(kw, extra_indices_in_kvcache=idx2[:, :, :0], extra_topk_length=n2 * 0))
print('error', error)
"""
)


def test_hooked_kernel_agrees_with_sglangs_own(serve: Serve, tmp_path: Path, held: list[str]) -> None:
    done = serve(
        CALLS,
        whole=True,
        PDOPS_KERNELS_STATUS_DIR=str(tmp_path),
        PDOPS_KERNELS_STRICT="1",
        SGLANG_SM120_MMA_TARGET_CTAS="8",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (record,) = (json.loads(p.read_text()) for p in tmp_path.glob("*.json"))
    assert (record["state"], record["sglang"], record["machine"]) == ("serving", "0.5.23", "rtx-pro-6000")
    assert [(p["rows"], p["caps"], p["splits"], p["policy"]) for p in record["plans"]] == [
        (3, [128, 64], 3, "target"),
        (3, [128], 3, "target"),
    ]
    assert record["fallbacks"] == {  # written when a reason first appears
        "no top-k length": 2,
        "dtype of the KV cache": 1,
        "KV layout": 1,
        "caps=(128, 0): kind mla_packed takes 1 to 2 streams of at least one token.": 1,
    }
    held.append("hooked into the real SGLang 0.5.23, agrees with its torch path")


def test_a_status_directory_that_breaks_later_does_not_end_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without SGLang: only the hook. At the start the same trouble is fatal in strict mode, see above."""
    from pdops_kernels import sglang_plugin as plugin

    monkeypatch.setenv("PDOPS_KERNELS_MACHINE", "rtx-pro-6000")
    place = tmp_path / "status"
    hook = plugin.Hook(plugin.Knobs("auto", strict=True), plugin.Status(str(place)))
    assert hook(lambda *a: "stock", 1) == "stock"
    (record,) = (json.loads(p.read_text()) for p in place.glob("*.json"))
    assert (record["state"], record["fallbacks"], record["pid"]) == ("hooked", {"positional arguments": 1}, os.getpid())
    shutil.rmtree(place)
    place.write_text("no directory any more")
    q = torch.zeros(0, 1, 16, 512, dtype=torch.bfloat16)
    assert hook(lambda **k: "stock", q=q, k_cache=q, indices=q, head_dim_v=512) == "stock"
    assert hook.book is not None and hook.book.fallbacks["no rows"] == 1
    assert "status record cannot be written" in caplog.text


def test_allow_list_of_sglang_leaves_us_out_and_then_there_is_no_record(serve: Serve, tmp_path: Path) -> None:
    code = LOAD + "assert not hasattr(m.flash_mla_with_kvcache_sm120, '__wrapped__')"
    done = serve(code, PDOPS_KERNELS_STATUS_DIR=str(tmp_path), SGLANG_PLUGINS="other")
    assert done.returncode == 0 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("strict", ["0", "1"])
@pytest.mark.parametrize("trouble", ["version", "target"])
def test_trouble_ends_the_process_in_strict_mode_only(serve: Serve, tmp_path: Path, trouble: str, strict: str) -> None:
    code, first = LOAD + "assert not hasattr(m.flash_mla_with_kvcache_sm120, '__wrapped__'); print('served')", None
    if trouble == "version":
        first = tmp_path / "first"
        (first / "sglang-0.5.24.dist-info").mkdir(parents=True)
        (first / "sglang-0.5.24.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.24\n"
        )
    else:  # the function moved
        code = "import pdops_kernels.sglang_plugin as p; p.TARGET = p.TARGET + '_moved'\n" + code
    status = tmp_path / "status"
    done = serve(code, first=first, PDOPS_KERNELS_STATUS_DIR=str(status), PDOPS_KERNELS_STRICT=strict)
    (record,) = (json.loads(p.read_text()) for p in status.glob("*.json"))
    sentence = "outside the known range 0.5.23" if trouble == "version" else "could not apply the hook"
    assert sentence in record["error"]
    if strict == "1":
        assert (
            (done.returncode, record["state"]) == (78, "ended")
            and "served" not in done.stdout
            and sentence in done.stderr
        )
    else:
        assert (done.returncode, record["state"]) == (0, "failed") and "served" in done.stdout


def test_a_bad_knob_always_ends_the_process(serve: Serve, tmp_path: Path) -> None:
    done = serve(LOAD + "print('served')", PDOPS_KERNELS_STATUS_DIR=str(tmp_path), SGLANG_SM120_MMA_TARGET_CTAS="2x")
    assert done.returncode == 78 and "served" not in done.stdout
    assert "SGLANG_SM120_MMA_TARGET_CTAS='2x' is not a whole number" in done.stderr


def test_no_gpu_is_found_out_at_the_first_call(serve: Serve, tmp_path: Path) -> None:
    for strict, code in (("0", 0), ("1", 78)):
        done = serve(CALLS.split("long = dict")[0].replace("for drop in", "m._sm120_default_backend = 'torch'\nfor drop in"),
                     PDOPS_KERNELS_STATUS_DIR=str(tmp_path / strict), PDOPS_KERNELS_STRICT=strict, PDOPS_KERNELS_MACHINE="")  # fmt: skip
        (record,) = (json.loads(p.read_text()) for p in (tmp_path / strict).glob("*.json"))
        assert done.returncode == code, done.stderr[-1000:]
        assert "No CUDA device" in record["error"]
