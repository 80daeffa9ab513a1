# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""pd_instance and pd_gate as a playbook uses them: out of the repo, out of an installed collection, over a line that breaks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "unit" / "services"))
from supervised import Supervised, engine, free_port  # noqa: E402

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
ANSWERS = json.dumps({"/health": [200, ""], "/server_info": [200, {"internal_states": [{"env_vars": {}}]}]})

# The local connection, but it refuses the second, third and fourth call of pd_gate. Then the engine may end its loading.
FLAKY = '''
DOCUMENTATION = """
    name: flaky
    short_description: local, with a line that can be cut
    description: For a test.
    author: the pdops authors
    options:
        become_success_timeout:
            type: int
            default: 10
            description: unused
        become_strip_preamble:
            type: bool
            default: true
            description: unused
    extends_documentation_fragment: [connection_pipelining]
"""
import os
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as Local

class Connection(Local):
    transport = "flaky"

    def exec_command(self, cmd, in_data=None, sudoable=True):
        if b"pd_gate" in (cmd if isinstance(cmd, bytes) else cmd.encode()) + (in_data or b""):
            with open(os.environ["FLAKY"] + ".calls", "a+") as calls:
                calls.write("x")
                calls.seek(0)
                number = len(calls.read())
            if number in (2, 3, 4):
                raise AnsibleConnectionFailure("Failed to connect to the host via ssh: No route to host")
            if number > 4:
                open(os.environ["FLAKY"], "w").close()
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)

    def reset(self):
        pass
'''


@pytest.fixture(scope="module")
def daemon():
    made = Supervised()
    yield made
    made.close()


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """The collection as it is installed: plain files, no links."""
    if shutil.which("git") is None:
        pytest.skip("tools/stage needs git")
    folder = tmp_path_factory.mktemp("installed")
    done = subprocess.run([ROOT / "tools" / "stage", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # What git does not know yet is not staged: a test of a change must not run the former code.
    target = folder / "ansible_collections" / "pdops" / "sglang" / "plugins"
    for room, name in (("library", "modules"), ("action_plugins", "action"), ("module_utils", "module_utils")):
        shutil.copytree(ROOT / room, target / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


class Played:
    def __init__(self, done: subprocess.CompletedProcess, out: Path) -> None:
        self.rc, self.text = done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        self.results = json.loads(out.read_text()) if out.exists() else {}


def play(tmp_path, tasks, collections=None, connection="local"):
    """Run tasks; every one of them registers its result under its name, and may fail."""
    names = []
    for task in tasks:
        task["register"] = task["name"].replace(" ", "_")
        task["ignore_errors"] = True
        names.append(task["register"])
    everything = "{{ {" + ", ".join(f"'{name}': {name}" for name in names) + "} | to_json }}"
    out = tmp_path / "results.json"
    tasks = [
        *tasks,
        {
            "name": "keep",
            "ansible.builtin.copy": {"content": everything, "dest": str(out), "mode": "0600"},
            "connection": "local",
            "check_mode": False,
        },
    ]
    book = tmp_path / "book.yml"
    # What is done outside of a change is written into the journal.
    defaults = {"pdops.sglang.pd_instance": {"state_dir": str(tmp_path / "state")}}
    of_all = {"hosts": "all", "gather_facts": False, "module_defaults": defaults, "tasks": tasks}
    book.write_text(yaml.safe_dump([of_all]))
    plugins = tmp_path / "connections"
    plugins.mkdir(exist_ok=True)
    (plugins / "flaky.py").write_text(FLAKY)
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(collections or ROOT / "collections"),
        "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg" if collections else ROOT / "ansible.cfg"),
        "ANSIBLE_CONNECTION_PLUGINS": str(plugins),
        "ANSIBLE_NOCOLOR": "1",
        "FLAKY": str(tmp_path / "go"),
    }
    (tmp_path / "ansible.cfg").write_text("[defaults]\n")
    process = subprocess.Popen(
        [
            Path(sys.executable).parent / "ansible-playbook",
            "-i",
            "one,",
            "-c",
            connection,
            "-e",
            f"ansible_python_interpreter={sys.executable}",
            str(book),
        ],
        cwd=tmp_path if collections else ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    text, _nothing = process.communicate(timeout=600)
    return Played(subprocess.CompletedProcess([], process.returncode, text, ""), out)


def test_out_of_an_installed_collection(tmp_path, daemon, staged):
    """The action plugin and its relatives are found by the full name, without any setting of the repo."""
    port = free_port()
    daemon.use({"decode": engine("--port", port, "--answers", ANSWERS, "--load", 0.7)})
    unit = {"unit": "decode", "manager": "supervisor", "supervisor_config": str(daemon.config)}
    gates = {**unit, "name": "lab-decode", "role": "decode", "url": f"http://127.0.0.1:{port}", "timeout_s": 30}
    tasks = [
        {"name": "start", "pdops.sglang.pd_instance": {**unit, "state": "started"}},
        {"name": "prove", "pdops.sglang.pd_gate": gates},
    ]
    try:
        ran = play(tmp_path, tasks, collections=staged)
    finally:
        daemon.clear()
    assert ran.results["prove"]["outcome"] == "passed", ran.text
    assert "  lab-decode  health      passed in " in ran.text


def test_an_instance_is_started_proved_and_stopped(tmp_path, daemon):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    more = f"environment={KNOB}=512,HF_TOKEN=hunter2"
    command = engine(
        "--port", port, "--children", 1, "--title", "sglang::scheduler", "--answers", ANSWERS, "--load", 0.7
    )
    daemon.use({"decode": (command, more)})
    key = tmp_path / "key"
    key.write_text("k-1")
    key.chmod(0o644)
    unit = {"unit": "decode", "manager": "supervisor", "supervisor_config": str(daemon.config)}
    gates = {**unit, "name": "lab-decode", "role": "decode", "url": url}
    instance, gate = "pdops.sglang.pd_instance", "pdops.sglang.pd_gate"
    try:
        ran = play(
            tmp_path,
            [
                {"name": "would start", instance: {**unit, "state": "started", "url": url}, "check_mode": True},
                {"name": "start", instance: {**unit, "state": "started", "url": url}},
                {"name": "would wait", gate: gates, "check_mode": True},
                {
                    "name": "prove",
                    gate: {
                        **gates,
                        "gates": ["unit", "port", "health", "effective"],
                        "required": ["effective"],
                        "expectations": {KNOB: 512, "SGLANG_TYPO": None},
                        "not_process": "{{ start.before }}",
                        "timeout_s": 60,
                    },
                },
                {
                    "name": "disprove",
                    gate: {**gates, "gates": ["effective"], "expectations": {KNOB: "256"}, "timeout_s": 60},
                },
                {"name": "no systemd", instance: {"unit": "decode"}},
                {"name": "no gate", gate: {**gates, "gates": ["unit", "luck"]}},
                {"name": "no url", gate: {**gates, "url": "here"}},
                {"name": "no value", gate: {**gates, "expectations": {KNOB: True}}},
                {"name": "secret", gate: {**gates, "expectations": {"HF_TOKEN": "hunter3"}}},
                {"name": "open key", gate: {**gates, "api_key_file": str(key)}},
                {"name": "stop", instance: {**unit, "state": "stopped", "url": url, "drain_s": 5}},
            ],
        )
    finally:
        daemon.clear()
    found = ran.results
    assert found, ran.text
    assert (found["would_start"]["changed"], found["would_start"]["after"]["pid"]) == (True, None)
    assert found["start"]["changed"] is True
    assert found["start"]["before"]["pid"] is None
    assert found["would_wait"]["skipped"] is True
    assert found["would_wait"]["msg"] == "lab-decode: would wait at most 900 s for unit, port, health"
    proved = found["prove"]
    assert not proved["failed"], proved
    assert [(one["gate"], one["result"]) for one in proved["gates"]] == [
        (one, "passed") for one in ("unit", "port", "health", "effective")
    ]
    assert proved["main"]["pid"] == found["start"]["after"]["pid"]
    assert proved["changed"] is False
    assert "resume" not in proved
    ended = re.compile(r"  lab-decode  \w+ +(passed|failed|not-observable) in ")  # a busy machine shows progress, too
    lines = [line for line in ran.text.splitlines() if ended.match(line)]
    assert [line.split()[1] for line in lines] == ["unit", "port", "health", "effective", "effective"]
    assert lines[-1].split()[2] == "failed"
    assert found["disprove"]["failed"] is True
    assert re.match(r"lab-decode: gate effective failed after \d\.\d s: ", found["disprove"]["msg"])
    assert f"{KNOB}=512" in found["disprove"]["msg"]
    assert "hunter" not in ran.text + json.dumps(proved)
    assert "secrets are not taken as parameters" in found["secret"]["msg"]
    if not os.path.isdir("/run/systemd/system"):
        assert "does not run systemd" in found["no_systemd"]["msg"]
    assert "luck" in found["no_gate"]["msg"]
    assert "'here' is not a URL" in found["no_url"]["msg"]
    assert "quote it" in found["no_value"]["msg"]
    assert f"chmod 600 {key}" in found["open_key"]["msg"]
    assert all(found[name]["failed"] for name in ("secret", "no_systemd", "no_gate", "no_url", "no_value", "open_key"))
    assert found["stop"]["changed"] is True
    assert found["stop"]["after"]["state"] == "inactive"


def test_a_line_that_breaks_while_an_instance_loads(tmp_path, daemon):
    port = free_port()
    daemon.use({"decode": engine("--port", port, "--answers", ANSWERS, "--load-until", tmp_path / "go")})
    unit = {"unit": "decode", "manager": "supervisor", "supervisor_config": str(daemon.config)}
    gates = {
        **unit,
        "name": "far",
        "role": "decode",
        "url": f"http://127.0.0.1:{port}",
        "gates": ["unit", "port", "health"],
    }
    try:
        ran = play(
            tmp_path,
            [
                {"name": "start", "pdops.sglang.pd_instance": {**unit, "state": "started"}},
                {"name": "wait", "pdops.sglang.pd_gate": {**gates, "timeout_s": 60, "slice_s": 0.5}},
            ],
            connection="flaky",
        )
    finally:
        daemon.clear()
    assert not ran.results["wait"]["failed"], ran.text
    lost = [line for line in ran.text.splitlines() if "connection lost" in line]
    assert len(lost) == 1
    assert "No route to host" in lost[0]
    assert "connected again" in ran.text
    assert [one["result"] for one in ran.results["wait"]["gates"]] == ["passed"] * 3
    assert len((tmp_path / "go.calls").read_text()) >= 5
