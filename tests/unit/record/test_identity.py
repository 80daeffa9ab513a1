# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The fingerprint: packages against their RECORD, checkouts, models, GPUs; read from the files themselves."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.record import fingerprints, identity, packages
from ansible_collections.pdops.sglang.plugins.module_utils.record.data import merged_fingerprint
from ansible_collections.pdops.sglang.plugins.module_utils.record.machine import testimony as tell
from ansible_collections.pdops.sglang.plugins.module_utils.record.machine import (
    testimony_or_trouble as tell_if_possible,
)
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

FILES = {"sglang/__init__.py": b"x = 1\n", "sglang/srt/a.py": b"y = 2\n", "../../bin/sglang": b"#!python\n"}


def install(site, name="sglang", version="0.5.23", files=None, direct=None):
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    rows = []
    for path, content in (FILES if files is None else files).items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(content)}")
    (info / "RECORD").write_text("\n".join([*rows, "sglang/__pycache__/a.pyc,,", f"{info.name}/RECORD,,"]) + "\n")
    if direct:
        (info / "direct_url.json").write_text(json.dumps(direct))
    return info


@pytest.fixture
def site(tmp_path):
    return tmp_path / "venv" / "lib" / "python3.12" / "site-packages"


def told(site, name="sglang", budget_s=10.0):
    (package,) = packages.find([str(site)], [name])
    return packages.identity(package, time.monotonic() + budget_s)


def test_a_package_whose_files_are_those_that_were_installed_and_one_that_was_patched(site):
    install(site)
    assert told(site) == "0.5.23, files as installed"
    (site / "sglang/srt/a.py").write_bytes(b"y = 3\n")
    patched = told(site)
    assert patched.startswith("0.5.23, 1 file differs (sglang/srt/a.py; ")
    (site / "sglang/srt/a.py").write_bytes(b"y = 4\n")
    assert told(site) != patched
    (site / "sglang/__init__.py").unlink()
    assert told(site).startswith("0.5.23, 2 files differ (sglang/__init__.py, sglang/srt/a.py; ")
    assert told(site, budget_s=-1) == "0.5.23, files not observable in time"


def test_a_large_file_is_compared_by_its_size(site, monkeypatch):
    install(site)
    monkeypatch.setattr(packages, "MOST_HASHED", 3)
    (site / "sglang/srt/a.py").write_bytes(b"y = 3\n")
    assert told(site) == "0.5.23, files as installed"
    (site / "sglang/srt/a.py").write_bytes(b"y = 33\n")
    assert told(site).startswith("0.5.23, 1 file differs (sglang/srt/a.py; ")


def test_names_are_compared_as_pypi_does_and_absent_packages_are_left_out(site):
    install(site, "sgl_kernel", "0.3.1", {})
    found = packages.find([str(site), "/nonexistent"], ["sglang", "SGL.kernel"])
    assert [(package.name, package.version) for package in found] == [("sgl-kernel", "0.3.1")]


def test_an_editable_install_is_told_by_its_commit_and_by_its_code(site, tmp_path):
    source = tmp_path / "src"
    (source / "sglang").mkdir(parents=True)
    (source / "sglang/a.py").write_text("x = 1\n")
    run = {"cwd": source, "check": True, "capture_output": True}
    subprocess.run(["git", "init", "-q"], **run)
    subprocess.run(["git", "add", "."], **run)
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.net", "commit", "-qm", "x"], **run)
    head = subprocess.run(["git", "rev-parse", "HEAD"], **run, text=True).stdout[:12]
    install(site, files={}, direct={"url": f"file://{source}", "dir_info": {"editable": True}})
    first = told(site)
    assert first.startswith(f"0.5.23, editable at commit {head}, code ")
    (source / "sglang/a.py").write_text("x = 2\n")
    assert told(site) != first and told(site).startswith(f"0.5.23, editable at commit {head}, code ")
    subprocess.run(["git", "pack-refs", "--all"], **run)
    subprocess.run(["git", "checkout", "-q", "--detach"], **run)
    assert packages.commit_of(str(source / "sglang")) == head
    assert packages.commit_of("/") is None


def test_a_package_from_version_control_is_told_by_its_commit(site):
    install(
        site, direct={"url": "https://example.net/x.git", "vcs_info": {"vcs": "git", "commit_id": "0123456789abcdef"}}
    )
    assert told(site) == "0.5.23, commit 0123456789ab, files as installed"
    (site / "sglang-0.5.23.dist-info" / "direct_url.json").write_text("[" * 9000)
    assert told(site) == "0.5.23, files as installed"


def test_the_environment_of_a_process_is_found_by_its_command_line_and_by_what_it_has_mapped(tmp_path):
    assert packages.site_folders(os.getpid(), sys.executable) == [
        os.path.realpath(packages.site_folders(os.getpid(), sys.executable)[0])
    ]
    venv = tmp_path / "venv"
    (venv / "lib/python3.12/site-packages").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("")
    assert packages.site_folders(0, str(venv / "bin/python")) == [
        os.path.realpath(venv / "lib/python3.12/site-packages")
    ]
    assert packages.site_folders(0, "sglang::scheduler") == []


def test_all_engines_are_asked_at_once(monkeypatch):
    """Each answers only when the other was asked, too."""
    both = threading.Barrier(2)

    class Engine(BaseHTTPRequestHandler):
        def do_GET(self):
            try:
                both.wait(2)
            except threading.BrokenBarrierError:
                self.send_error(503)
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"version": "0.5.23"}')

        def log_message(self, *_unused):
            pass

    monkeypatch.setattr(identity, "_engine_process", lambda _: (None, []))
    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        pair = [Instance(f"dsv4-{role}", role, "u", "/s", url, "m", "systemd") for role in ("prefill", "decode")]
        told = identity.fingerprint(pair)
        server.shutdown()
    assert (told["prefill engine"], told["decode engine"]) == ("0.5.23", "0.5.23")


def test_deployed_kernels_are_told_and_so_is_that_there_are_none(tmp_path, monkeypatch):
    """They lie in PYTHONPATH, in front of every environment; figures of a knob of theirs hold for them only."""
    folder = tmp_path / "kernels" / "0.1.0-0a1b2c3d"
    install(folder, "pdops_kernels", "0.1.0", {"pdops_kernels/__init__.py": b"a = 1\n"})
    decode = Instance("dsv4-decode", "decode", "u", "/s", "http://127.0.0.1:1", "m", "systemd")
    told_by = {}
    for name, value in (("with", f"{folder}:relative"), ("without", "/nowhere")):
        process = subprocess.Popen(["sleep", "60"], env={"PYTHONPATH": value})
        monkeypatch.setattr(identity, "_engine_process", lambda _, pid=process.pid: (pid, ["sleep", "60"]))
        try:
            until_s = time.monotonic() + 5
            while value.encode() not in Path(f"/proc/{process.pid}/environ").read_bytes():
                assert time.monotonic() < until_s
            told_by[name] = identity.fingerprint([decode])
        finally:
            process.kill()
            process.wait()
    assert told_by["with"]["decode pdops-kernels"] == "0.1.0-0a1b2c3d, files as installed"
    assert told_by["without"]["decode pdops-kernels"] == "none"
    assert fingerprints.difference(told_by["without"], told_by["with"]) == (
        "decode pdops-kernels: none -> 0.1.0-0a1b2c3d, files as installed"
    )


def test_gpus_and_driver_as_the_kernel_tells_them(tmp_path):
    for at in range(8):
        folder = tmp_path / "nvidia" / "gpus" / f"0000:0{at}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text("Model: \t\t NVIDIA B200\nIRQ: 16\nGPU UUID: \t GPU-1\n")
    (tmp_path / "nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build\nGCC version:  gcc version 13.3.0\n"
    )
    assert identity._gpus(str(tmp_path / "nvidia")) == {"gpu": "8 x NVIDIA B200", "driver": "580.82.07"}
    assert identity._gpus("/nonexistent")["gpu"] == "no NVIDIA driver"
    (tmp_path / "empty").mkdir()
    assert identity._gpus(str(tmp_path / "empty")) == {"gpu": "not observable", "driver": "not observable"}


def test_a_model_is_its_files_and_not_only_its_name(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model-1.safetensors").write_bytes(b"x" * 10)
    first = identity._model(str(tmp_path), {"revision": "abc"})
    assert first.startswith(f"{tmp_path}, revision abc, files ")
    (tmp_path / "model-1.safetensors").write_bytes(b"x" * 11)
    assert identity._model(str(tmp_path), {"revision": "abc"}) != first
    assert identity._model("org/name", {}) == "org/name" and identity._model("", {}) == "not observable"


def test_what_cannot_be_seen_is_never_a_difference():
    one, other = {"engine": "a", "gpu": "not observable", "only": "x"}, {"engine": "a", "gpu": "8 x B200"}
    assert fingerprints.same(one, other) and fingerprints.difference(one, other) == ""
    assert fingerprints.same(None, other) and fingerprints.same({}, other)
    long = " ".join(f"--option-{at} {at}" for at in range(40))
    told = fingerprints.difference({"model": long}, {"model": long.replace("--option-30 30", "--option-30 31")})
    assert told.startswith("model: …30 --option-31") and "-> …31 --option-31" in told and len(told) < 300


def test_machines_are_merged_and_where_they_differ_it_is_said():
    machines = [
        {"change_machine": "a", "fingerprint": {"driver": "580", "gpu": "8 x B200"}},
        {"change_machine": "b", "fingerprint": {"driver": "590", "gpu": "8 x B200"}},
    ]
    assert merged_fingerprint(machines) == {"driver": "a: 580; b: 590", "gpu": "8 x B200"}
    assert fingerprints.is_simulation({"decode engine": "0.5.23-simulation"}) and not fingerprints.is_simulation(
        {"a": "0.5.23"}
    )


def test_a_machine_tells_its_ended_changes_without_secrets_and_what_it_cannot_read(tmp_path):
    who_ = {"user": "bob", "host": "ops2", "pid": 1}
    spec = {"unit": "u", "serve_script": "/s", "manager": "systemd", "name": "dsv4-decode"}
    knobs = {"SGLANG_X": [None, "--api-key sk-AbCdEfGhIjKlMnOpQrStUv"], "HF_TOKEN": ["a", "b"]}
    files = [{"instance": "dsv4-decode", "path": "/s", "sha256_before": "0", "sha256_after": "1", "knobs": knobs}]
    book = Book(Store(str(tmp_path)))
    for at, state in enumerate(("confirmed", "open")):
        record = rules.new_record(
            f"20261129T20061{at}-set-00000{at}",
            "dsv4",
            "set",
            "set it",
            who_,
            files,
            [spec],
            1.0,
            "2026-11-29T20:06:13Z",
        )
        book._save(rules.ended(record, state, "", "2026-11-29T20:07:00Z") if state == "confirmed" else record)
    (tmp_path / "changes" / "half.json").write_text("{")
    instance = Instance("dsv4-decode", "decode", "u", "/s", "http://127.0.0.1:1", "m", "systemd")
    told = tell([instance], str(tmp_path))
    (change,) = told["changes"]
    assert (change["id"], change["who"], change["ended"]) == (
        "20261129T200610-set-000000",
        "bob on ops2",
        "2026-11-29T20:07:00Z",
    )
    assert change["files"] == [{"instance": "dsv4-decode", "knobs": {"SGLANG_X": [None, "--api-key ********"]}}]
    assert "half.json" in told["trouble"][0]
    assert told["fingerprint"]["decode engine"] == told["fingerprint"]["decode arguments"] == "not observable"
    # As a confirm reads it, which has held by then and must not fail.
    assert tell_if_possible([instance.as_dict()], str(tmp_path)) == told
    os.rename(tmp_path / "changes", tmp_path / "kept")
    (tmp_path / "changes").write_text("not a folder")
    half = tell_if_possible([instance.as_dict()], str(tmp_path))
    assert "fingerprint" not in half and "changes" in half["trouble"][0]


SERVE = (
    "-m sglang.launch_server --model-path /models/a --tp 4 --host 0.0.0.0 --cuda-graph-bs 1 2 4 --context-length=4096"
)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            SERVE,
            "-m sglang.launch_server --tp=4 --context-length 4096 --cuda-graph-bs 1 2 4 --host 0.0.0.0 --model-path /models/a",
            "",
        ),
        (SERVE, SERVE.replace("--tp 4", "--tp 8"), "--tp 4 -> --tp 8"),
        (SERVE, SERVE + " --enable-x", "(nothing) -> --enable-x"),
        (
            SERVE + " --enable-x",
            SERVE.replace("1 2 4", "1 2"),
            "--cuda-graph-bs 1 2 4 --enable-x -> --cuda-graph-bs 1 2",
        ),
        ("--x 1 --x 2", "--x 2 --x 1", "--x 1 --x 2 -> --x 2 --x 1"),  # the last one wins
        (f"--j {'a' * 300}1", f"--j {'a' * 300}2", f"…{'a' * 30}1 -> …{'a' * 30}2"),
        ("--tp 4", "p1: --tp 4; p2: --tp 8", "p2: --tp 4 -> p2: --tp 8"),
        ("p1: --tp 4 --a; p2: --a --tp 4", "--a --tp 4", ""),
        ("gpu1: --tp 4; gpu2: --tp 2 --a", "gpu1: --tp 4; gpu2: --a --tp 4", "gpu2: --tp 2 -> gpu2: --tp 4"),
    ],
)
def test_of_command_lines_only_what_differs_is_told_and_order_is_no_difference(before, after, told):
    one, other = {"decode arguments": before}, {"decode arguments": after}
    assert fingerprints.difference(one, other) == (f"decode arguments: {told}" if told else "")
    assert fingerprints.same(one, other) is (told == "")
