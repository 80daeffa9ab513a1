# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Every module that changes something on a machine says so in the machine's journal, and none that changes nothing does."""

from __future__ import annotations

import getpass
import importlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.pdops.sglang.plugins.action.serve_machine import wanted_of
from ansible_collections.pdops.sglang.plugins.module_utils.change.who import operator
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.serving.wheel_set import read_wheels
from ansible_collections.pdops.sglang.plugins.module_utils.store.doing import journaled, note
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

from tests.kernel_wheel import make_wheel
from tests.unit.serving.test_wheels import wheel

ROOT = Path(__file__).resolve().parents[3]
#: Each has its line, or its lines, proved here or beside what it does: a change by its steps, an edit by its version.
CHANGE_A_MACHINE = {
    "kernel_package", "kernel_selftest", "pd_change", "pd_instance", "pd_worker", "serve_knob", "serve_machine", "serve_script",
    "serve_version",
}  # fmt: skip
#: They look, or write nothing but what pdops keeps for itself: the line of a finding, and contents that a change is about to use.
CHANGE_NOTHING_THERE = {
    "pd_deploy", "pd_evidence", "pd_gate", "pd_history", "pd_info", "pd_journal", "pd_probe", "pd_recover", "pd_status",
}  # fmt: skip
#: What the module does whose place it takes.
IN_PLACE_OF_OTHERS = {"pd_machine"}
ON_THE_CONTROLLER = {"pd_intended", "pd_plan", "pd_record", "pd_report", "serve_check"}

Module = Callable[..., "dict[str, Any]"]
Lines = Callable[..., "list[dict[str, Any]]"]


def test_of_each_module_it_is_known_whether_it_owes_the_journal_a_line() -> None:
    assert {path.stem for path in (ROOT / "library").glob("*.py")} == (
        CHANGE_A_MACHINE | CHANGE_NOTHING_THERE | ON_THE_CONTROLLER | IN_PLACE_OF_OTHERS
    )


@pytest.fixture
def module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Module:
    def run(name: str, check: bool = False, /, **given: Any) -> dict[str, Any]:
        arguments = {
            "actor": "alice on ops1",
            "state_dir": str(tmp_path / "state"),
            "_ansible_check_mode": check,
            "_ansible_remote_tmp": str(tmp_path),
            **given,
        }
        main = importlib.import_module(f"ansible_collections.pdops.sglang.plugins.modules.{name}").main
        with patch_module_args(arguments), pytest.raises(SystemExit):
            main()
        told = capsys.readouterr()
        return {**json.loads(told.out.splitlines()[-1]), "warned": " ".join(told.err.split())}

    return run


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    """Of the journal, without when and by which process; each call tells what came since the one before."""
    told = 0

    def since() -> list[dict[str, Any]]:
        nonlocal told
        rows = Store(str(tmp_path / "state")).journal()[told:]
        told += len(rows)
        return [{name: item for name, item in row.items() if name not in ("at", "boot", "pid")} for row in rows]

    return since


def test_kernels_that_are_installed_pruned_and_taken_away(module: Module, lines: Lines, tmp_path: Path) -> None:
    common = {"root": str(tmp_path / "kernels")}
    first = make_wheel(tmp_path / "a")
    assert module("kernel_package", True, wheel=str(first), **common)["changed"] and lines() == []
    done = module("kernel_package", wheel=str(first), **common)
    begin, end = lines()
    assert begin == {
        "verb": "kernel_package", "state": "present", "step": "begin", "actor": "alice on ops1", "path": done["path"],
        "sha256": done["package"]["sha256"], "said": f"install pdops_kernels 0.1.0 into {done['path']}",
    }  # fmt: skip
    assert end == {**begin, "step": "done"}
    assert not module("kernel_package", wheel=str(first), **common)["changed"] and lines() == []

    second = module("kernel_package", wheel=str(make_wheel(tmp_path / "b", "0.2.0")), **common)
    lines()
    assert module("kernel_package", True, state="prune", keep=1, **common)["changed"] and lines() == []
    module("kernel_package", state="prune", keep=1, **common)
    told = [(row["verb"], row["state"], row["step"], row["removed"]) for row in lines()]
    assert told == [("kernel_package", "prune", step, [done["path"]]) for step in ("begin", "done")]
    module("kernel_package", state="prune", keep=1, **common)
    assert lines() == []
    module("kernel_package", state="absent", name=Path(second["path"]).name, **common)
    assert [(row["state"], row["step"], row["removed"]) for row in lines()] == [
        ("absent", step, [second["path"]]) for step in ("begin", "done")
    ]


def test_an_install_that_fails_or_may_not_begin(
    module: Module, lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible_collections.pdops.sglang.plugins.module_utils.kernel_package import installing

    made, common = make_wheel(tmp_path / "a"), {"root": str(tmp_path / "kernels")}
    there = Path(module("kernel_package", wheel=str(make_wheel(tmp_path / "b", "0.2.0")), **common)["path"])
    lines()
    with monkeypatch.context() as full:
        full.setattr(installing, "_readable", lambda *_: "a file")  # a disk that gives back what was not written
        failed = module("kernel_package", wheel=str(made), **common)
    assert "reads back otherwise" in failed["msg"]
    begin, end = lines()
    assert (begin["step"], end["step"]) == ("begin", "failed") and end["said"] == failed["msg"]
    (tmp_path / "state").chmod(0o750)
    refused = module("kernel_package", True, wheel=str(made), **common)
    assert "is open to others" in refused["msg"], "and in check mode just so"
    refused = module("kernel_package", wheel=str(made), **common)
    assert "is open to others" in refused["msg"] and list((tmp_path / "kernels").glob("0*")) == [there]
    for check in (True, False):
        refused = module("kernel_package", check, state="absent", name=there.name, **common)
        assert "is open to others" in refused["msg"] and there.exists(), check


def test_kernels_that_were_made_ready_and_such_that_do_not_hold(module: Module, lines: Lines, tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(f"#!/bin/bash\nexec {sys.executable} -m sglang.launch_server --port 1\n")
    instance = {
        "name": "decode", "role": "decode", "unit": "u", "serve_script": str(script), "url": "http://127.0.0.1:1",
        "machine": "m", "manager": "supervisor", "supervisor_config": str(tmp_path / "none.conf"),
    }  # fmt: skip
    common = {
        "instance": instance, "root": str(tmp_path / "kernels"), "cache_root": str(tmp_path / "cache"),
        "status_root": str(tmp_path / "status"), "arch": 120, "checks": ["import", "plan"],
    }  # fmt: skip
    edit = {"pdops_kernels/plan.py": "raise ValueError('no plan')\n"}
    done = module("kernel_package", wheel=str(make_wheel(tmp_path / "a", edit=edit)), root=common["root"])
    lines()
    common["package"] = done["package"]
    assert not module("kernel_selftest", phase="look", **common).get("failed") and lines() == []
    assert module("kernel_selftest", True, phase="prepare", **common)["changed"] is False and lines() == []
    assert module("kernel_selftest", phase="prepare", **common)["changed"]
    assert lines() == [
        {
            "verb": "kernel_selftest", "state": "prepare", "step": "done", "instance": "decode", "actor": "alice on ops1",
            "package": done["package"]["folder"], "path": str(tmp_path / "status" / "decode"),
        }
    ]  # fmt: skip
    assert not module("kernel_selftest", phase="prepare", **common)["changed"] and lines() == []
    assert module("kernel_selftest", phase="test", **common)["failed"]
    (found,) = lines()
    assert (found["state"], found["step"]) == ("test", "failed") and "check import: " in found["said"]


def test_folders_and_an_environment_that_a_deploy_makes(module: Module, lines: Lines, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels")
    wheels = read_wheels(str(tmp_path / "wheels"), None, "d").as_dict()
    me, root = getpass.getuser(), str(tmp_path / "root")
    setting = {
        "root": root, "run": f"{root}/run/d", "user": me, "instance": {"serve_script": f"{root}/serve/d.sh"}, "cache": "",
        "wheels": wheels, "venv": f"{root}/venv-{wheels['key']}", "base_python": sys.executable, "keys": [],
    }  # fmt: skip
    given: dict[str, Any] = {"settings": [setting], "wanted": wanted_of([setting])}
    looked = module("serve_machine", phase="look", **given)
    assert looked["changed"] and lines() == []
    assert module("serve_machine", True, phase="make", **given)["changed"] and lines() == []
    (tmp_path / "state").mkdir(mode=0o750)
    (tmp_path / "state").chmod(0o750)
    assert "is open to others" in module("serve_machine", phase="look", **given)["msg"], "before wheels are carried"
    (tmp_path / "state").chmod(0o700)
    module("serve_machine", phase="begin", **given)
    (begin,) = lines()
    assert begin == {
        "verb": "serve_machine", "step": "begin", "actor": "alice on ops1", "tasks": [item["said"] for item in looked["tasks"]],
    }  # fmt: skip
    assert f"make folder {root}" in begin["tasks"] and not Path(root).exists()
    lacks = module("serve_machine", phase="make", begun=True, **given)  # the action carries the wheels before this
    (failed,) = lines()
    assert failed["step"] == "failed" and failed["said"] == lacks["msg"] and "does not have tiny-1.0" in failed["said"]
    module("serve_machine", phase="stop", said="tiny was taken away", **given)
    assert [(row["step"], row["said"]) for row in lines()] == [("failed", "tiny was taken away")]
    source = Path(root) / "wheels" / wheels["key"]
    source.mkdir(parents=True, exist_ok=True)
    (source / "tiny-1.0-py3-none-any.whl").write_bytes((tmp_path / "wheels/tiny-1.0-py3-none-any.whl").read_bytes())
    module("serve_machine", phase="make", **given)
    begin, end = lines()
    assert (begin["step"], end["step"]) == ("begin", "done") and "venv-" in str(begin["tasks"])
    assert not module("serve_machine", phase="make", **given)["changed"] and lines() == []


class Router(BaseHTTPRequestHandler):
    workers: dict[str, dict[str, Any]]

    def answer(self, code: int, data: Any) -> None:
        body = json.dumps(data).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.answer(200, {"workers": list(self.workers.values())})

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.workers["one"] = {"id": "one", "is_healthy": True, **given}
        self.answer(202, {})

    def do_DELETE(self) -> None:
        self.workers.pop(self.path.rpartition("/")[2])
        self.answer(202, {})

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def router() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Fresh", (Router,), {"workers": {}}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_worker_that_is_registered_and_taken_out_outside_of_a_change(
    module: Module, lines: Lines, router: str, tmp_path: Path
) -> None:
    given = {"router_url": router, "url": "http://127.0.0.1:1", "role": "decode", "instance": "r"}
    assert module("pd_worker", True, **given)["changed"] and lines() == []
    assert module("pd_worker", **given)["changed"]
    begin, end = lines()
    assert (begin["verb"], begin["state"], begin["step"], begin["instance"]) == ("pd_worker", "present", "begin", "r")
    assert end == {**begin, "step": "done"} and begin["router_url"] == router
    assert not module("pd_worker", **given)["changed"] and lines() == []
    assert module("pd_worker", state="absent", **given)["changed"]
    assert [(row["state"], row["step"]) for row in lines()] == [("absent", "begin"), ("absent", "done")]
    # What mends a deployment does not wait for the journal; that it lacks this is shown.
    (tmp_path / "state").chmod(0o750)
    mended = module("pd_worker", **given)
    assert mended["changed"] and "is open to others" in mended["warned"]


def test_an_instance_that_is_started_and_stopped_outside_of_a_change(
    module: Module, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "unit" / "services"))
    import supervised

    daemon = supervised.Supervised()
    try:
        port = supervised.free_port()
        daemon.use({"decode": supervised.engine("--port", port)})
        given = {
            "unit": "decode", "manager": "supervisor", "supervisor_config": str(daemon.config),
            "url": f"http://127.0.0.1:{port}",
        }  # fmt: skip
        for state in ("status", "stopped"):
            assert not module("pd_instance", state=state, **given)["changed"] and lines() == []
        assert module("pd_instance", True, state="started", **given)["changed"] and lines() == []
        assert module("pd_instance", state="started", **given)["changed"]
        begin, end = lines()
        assert begin == {
            "verb": "pd_instance", "state": "started", "step": "begin", "instance": "decode", "actor": "alice on ops1",
        }  # fmt: skip
        assert end == {**begin, "step": "done"}
        module("pd_instance", state="stopped", **given)
        assert [(row["state"], row["step"]) for row in lines()] == [("stopped", "begin"), ("stopped", "done")]
        daemon.clear()
        daemon.use({"decode": "/bin/false"})
        dead = module("pd_instance", state="started", **given)
        assert dead["failed"] and [row["step"] for row in lines()] == ["begin", "failed"]
    finally:
        daemon.close()


def test_texts_are_masked_and_what_was_done_counts_though_it_cannot_be_told(tmp_path: Path, lines: Lines) -> None:
    store = Store(str(tmp_path / "state"))
    note(
        store, {"verb": "v", "said": "--api-key hf_AbCdEfGhIjKlMnOp", "tasks": ["X_TOKEN=hunter2secret"], "none": None}
    )
    (row,) = lines()
    assert "AbCdEf" not in str(row) and "hunter2" not in str(row) and "none" not in row
    with journaled(store, {"verb": "v"}) as doing:
        (tmp_path / "state" / "journal.jsonl").unlink()
        (tmp_path / "state" / "journal.jsonl").mkdir()
    assert doing.trouble and "which the journal lacks" in doing.trouble[0]
    with pytest.raises(PdopsError, match=r"journal\.jsonl could not be written"), journaled(store, {"verb": "v"}):
        raise AssertionError("nothing is done of which the journal would not know that it was begun")


def test_people_are_named_as_everywhere() -> None:
    assert operator() == f"{getpass.getuser()} on {socket.gethostname()}"
