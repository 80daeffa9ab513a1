# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""deploy_kernels.yml in one lab: what fails before anything serves with it, install, again, what SGLang swallows, upgrade, back.

The simulated engine loads the package as SGLang does and writes its record; no kernel runs (lab/engine/plugins.py). What does run
is proved in kernels/.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kernel_wheel import RAISES_IN_ENGINE, make_wheel

from .conftest import QUICK, Lab, Ran

pytestmark = pytest.mark.lab


def deploy(lab: Lab, wheel: Path, *arguments: str) -> Ran:
    return lab.play("deploy_kernels.yml", "-e", f"kernel_wheel={wheel}", *QUICK, *arguments)


def folders(lab: Lab) -> set[str]:
    root = lab.dir / "root" / "kernels"
    return {item.name for item in root.iterdir() if item.is_dir()} if root.exists() else set()


def runs_with(lab: Lab) -> str:
    """What the decode's process really has."""
    entries = Path(f"/proc/{lab.pid('lab-decode')}/environ").read_bytes().split(b"\0")
    return next((entry.decode() for entry in entries if entry.startswith(b"PYTHONPATH=")), "")


def record(lab: Lab) -> dict[str, Any]:
    path = lab.dir / "root" / "run" / "kernels" / "lab-decode" / f"{lab.pid('lab-decode')}.json"
    return dict(json.loads(path.read_text()))


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    module_lab.lab("up", "--load-time-s", "0.4", "--health-time-s", "0.2")
    return module_lab


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_wheel(tmp_path_factory.mktemp("good"))


def test_what_does_not_hold_touches_nothing(lab: Lab, good: Path, tmp_path: Path) -> None:
    script, pids = lab.script.read_bytes(), lab.pids()
    broken = make_wheel(tmp_path / "broken", "0.9.0", {"pdops_kernels/plan.py": "raise ValueError('no plan')\n"})
    other = make_wheel(tmp_path / "other", "0.9.1", requires_python=">=3.99")
    for wheel, more, words in (
        (good, ("-e", f"kernel_sha256={'0' * 64}"), "so it is not the wheel that was meant"),
        (other, (), "and pdops_kernels 0.9.1 needs >=3.99; nothing was changed"),
    ):
        ran = deploy(lab, wheel, *more)
        assert ran.rc == 2 and words in ran.words, ran.text
        assert not folders(lab), "refused before anything was installed"
    disk = lab.dir / "root" / "kernels"
    disk.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True).returncode == 0:
        try:
            ran = deploy(lab, good)
            left = [item.name for item in disk.iterdir()]
        finally:
            subprocess.run(["umount", disk], check=True)
        assert ran.rc == 2 and "could not be installed: no space is left" in ran.words, ran.text
        assert left == [".pdops-lock"]
    # Killed when it is installed: the next run takes away what that one could not.
    process = lab.start("deploy_kernels.yml", "-e", f"kernel_wheel={broken}", *QUICK)

    def there() -> bool:
        return bool(folders(lab)) and lab.journal("kernel_package", "kernel_selftest")[-1]["step"] == "done"

    reached, text = lab.kill_at(process, "the install", there)
    assert reached, text
    ran = deploy(lab, broken)
    assert ran.rc == 2 and "the kernels failed their self-test, check import" in ran.words and "no plan" in ran.words
    assert not folders(lab), "what does not hold is taken away"
    assert lab.script.read_bytes() == script and lab.pids() == pids and not lab.changes()
    told = [(row["state"], row["step"]) for row in lab.journal("kernel_package", "kernel_selftest")][-6:]
    taken_away = [("absent", "begin"), ("absent", "done")]
    assert told == [("present", "begin"), ("present", "done"), ("prepare", "done"), ("test", "failed"), *taken_away]


def test_a_wheel_that_was_built_for_a_run_does_not_outlive_it(
    lab: Lab, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither when the plan alone is shown, nor when it is refused."""
    sources = tmp_path / "sources"
    (sources / ".venv" / "bin").mkdir(parents=True)
    (sources / ".venv" / "bin" / "python").write_text("")
    (sources / "tools").mkdir()
    (sources / "tools" / "wheel").write_text(f'cp {good} "$1"; touch {tmp_path}/built\n')
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setitem(lab.environment, "TMPDIR", str(temporary))
    for more, rc in ((("--check",), 0), (("-e", f"kernel_sha256={'0' * 64}"), 2)):
        ran = lab.play("deploy_kernels.yml", "-e", f"pd_kernel_sources={sources}", *more, *QUICK)
        assert ran.rc == rc, ran.text
        assert (tmp_path / "built").exists() and list(temporary.glob("pdops-kernels-*")) == []
        (tmp_path / "built").unlink()


@pytest.mark.long
def test_install_again_swallowed_upgrade_and_back(lab: Lab, good: Path, tmp_path: Path) -> None:
    before = lab.script.read_bytes()
    ran = deploy(lab, good)
    assert ran.rc == 0, ran.text
    (first,) = (name for name in folders(lab) if name.startswith("0.1.0-"))
    assert "0.1.0 hooked (simulation), policy target" in ran.words
    assert "0.1.0 serving (simulation), policy target: 1 rows x 16 heads in 20 splits; no fallback" in ran.words
    assert f"kernels/{first}" in runs_with(lab) and record(lab)["state"] == "serving"
    assert len(lab.changes()) == 1, "five knobs are one change"
    pids = lab.pids()
    again = deploy(lab, good)
    assert again.rc == 0 and again.recap["changed"] == 0, again.text
    assert "nothing to deploy: decode has pdops_kernels 0.1.0" in again.words and lab.pids() == pids
    status = lab.play("status.yml")
    assert "kernels: 0.1.0 serving (simulation), policy target" in status.words

    swallowed = make_wheel(tmp_path / "swallowed", "0.2.0", RAISES_IN_ENGINE)
    with_first = lab.script.read_bytes()
    ran = deploy(lab, swallowed)
    assert ran.rc == 2 and "gate kernels failed" in ran.words, ran.text
    assert "the stock kernel serves: no process wrote a record" in ran.words and "the old state is back" in ran.words
    assert lab.script.read_bytes() == with_first and f"kernels/{first}" in runs_with(lab) and lab.serves()

    better = make_wheel(tmp_path / "better", "0.3.0", {"pdops_kernels/plots.py": "# other plots\n"})
    ran = deploy(lab, better, "-e", "scope=decode", "-e", "pd_kernel_keep=two")
    assert ran.rc == 0, ran.text
    assert (
        "lab: old kernels were not removed (" in ran.words
    )  # the change holds, and nobody is left to believe that they were
    assert f"against {first}" in ran.words and "~ pdops_kernels/plots.py" in ran.words
    assert record(lab)["package"] == "0.3.0" and f"kernels/{first}" not in runs_with(lab)
    assert first in folders(lab), "a stored version of the script refers to it"

    first_change = next(item["id"] for item in lab.changes() if item["verb"] == "kernels")
    ran = lab.play("rollback.yml", "-e", f"change={first_change}", "-e", "expect_only=no", *QUICK)
    assert ran.rc == 0 and lab.script.read_bytes() == before, ran.text
    assert "kernels/" not in runs_with(lab) and "kernels  " not in ran.text and lab.serves()
    reports = list((lab.dir / "reports").rglob("*kernels*.html"))
    assert any("policy target: 1 rows x 16 heads in 20 splits" in page.read_text() for page in reports)
    assert os.path.isdir(lab.dir / "root" / "kernels" / first)
