# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The module serve_script: under the real ansible, as a playbook calls it, and what its documentation promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.pdops.sglang.plugins.modules import serve_script

ROOT = Path(__file__).resolve().parents[3]
SECRETS = ("hf_geheim", "sk-geheim", "vault-geheim")

INVENTORY = """
all:
  vars:
    ansible_connection: local
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    pd_deployment: dsv4
    pd_venv: /opt/sglang/venv
    pd_model_path: /models/DeepSeek-V4-Flash
    pd_engine_config: "{{ folder }}/keys.yaml"
    pd_become_password: "{{ secret_of_the_vault }}"
    secret_of_the_vault: vault-geheim
    pd_pair_arguments: {disaggregation-transfer-backend: nixl, tp-size: "{{ 2 + 2 }}", page-size: 64}
    pd_pair_knobs: {SGLANG_DSV4_KV_LAYOUT: "{{ layout }}", SGLANG_OCTAL: "010"}
    layout: packed
  children:
    pd_deployments: {hosts: {dsv4: }}
    dsv4_instances:
      hosts:
        dsv4-prefill:
          pd_role: prefill
          pd_unit: p
          pd_serve_script: "{{ folder }}/serve_prefill.sh"
          pd_url: http://127.0.0.1:30000
          pd_bootstrap_port: 8999
          pd_gpus: [0, 1, 2, 3]
          pd_numa_node: 0
        dsv4-decode:
          pd_role: decode
          pd_unit: d
          pd_serve_script: "{{ folder }}/serve_decode.sh"
          pd_url: http://127.0.0.1:30001
          pd_gpus: 4,5,6,7
          pd_arguments: {extra-metric-labels: {site: "it's ünï"}, mem-fraction-static: 0.85}
          pd_knobs: {SGLANG_NASTY: "it's $HOME \\\\ \\"x\\""}
        dsv4-router:
          pd_role: router
          pd_unit: r
          pd_serve_script: "{{ folder }}/serve_router.sh"
          pd_url: http://127.0.0.1:8000
          pd_metrics_url: http://127.0.0.1:29001/metrics
"""

PLAY = """
- hosts: dsv4
  gather_facts: false
  tasks:
    - name: What it would do
      pdops.sglang.serve_script: {instance: "{{ item }}", state_dir: "{{ folder }}/state"}
      delegate_to: "{{ item }}"
      loop: &all [dsv4-prefill, dsv4-decode, dsv4-router]
      check_mode: true
      register: looked
    - name: Nothing is there yet
      ansible.builtin.assert:
        that: looked is changed and (folder ~ '/serve_decode.sh') is not exists and (folder ~ '/state') is not exists
    - name: Do it
      pdops.sglang.serve_script: {instance: "{{ item }}", state_dir: "{{ folder }}/state", actor: erika}
      delegate_to: "{{ item }}"
      loop: *all
      register: done
    - name: It did what it said
      ansible.builtin.assert:
        that: done.results | map(attribute='sha256_after') | list == looked.results | map(attribute='sha256_after') | list
    - name: Do it again
      pdops.sglang.serve_script: {instance: "{{ item }}", state_dir: "{{ folder }}/state"}
      delegate_to: "{{ item }}"
      loop: *all
      register: again
      failed_when: again is changed
    - name: A template of one's own, knobs by hand
      pdops.sglang.serve_script:
        instance: dsv4-decode
        state_dir: "{{ folder }}/state"
        template: own.sh.j2
        expect_sha256: "{{ done.results[1].sha256_after }}"
        knobs: {SGLANG_LOG_MS: 1, SGLANG_DSV4_KV_LAYOUT: packed}
      delegate_to: dsv4-decode
      register: own
    - name: Secrets as options, as knobs, in a template; a wrong name; an option of the action's own
      pdops.sglang.serve_script: "{{ {'instance': 'dsv4-decode', 'state_dir': folder ~ '/state'} | combine(item) }}"
      delegate_to: dsv4-decode
      loop:
        - {knobs: {HF_TOKEN: hf_geheim}}
        - {template: secret.sh.j2}
        - {template: nosuch.sh.j2}
        - {instance: nobody}
        - {src: /etc/passwd}
        - {expect_sha256: "{{ done.results[1].sha256_after }}"}
        - {take: host}
        - {three_way: true, template: own.sh.j2, confirmed: {SGLANG_LOG_MS: 3, SGLANG_DSV4_KV_LAYOUT: packed}}
      register: refused
      failed_when: false
    - name: What the comparison would do when only the variables moved
      pdops.sglang.serve_script:
        instance: dsv4-decode
        state_dir: "{{ folder }}/state"
        template: own.sh.j2
        three_way: true
        confirmed: {SGLANG_LOG_MS: 1, SGLANG_DSV4_KV_LAYOUT: packed}
        knobs: {SGLANG_LOG_MS: 2, SGLANG_DSV4_KV_LAYOUT: packed}
      delegate_to: dsv4-decode
      check_mode: true
      register: compared
    - name: Tell
      ansible.builtin.copy:
        content: "{{ {'own': own, 'refused': refused.results, 'compared': compared, 'done': done.results} | to_json }}"
        dest: "{{ folder }}/told.json"
        mode: "0600"
      delegate_to: dsv4-decode
      no_log: true
"""


def play(folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "hosts.yml").write_text(INVENTORY)
    (folder / "play.yml").write_text(PLAY)
    return subprocess.run(
        [
            *(sys.executable, "-m", "ansible", "playbook", "-i", str(folder / "hosts.yml"), "-vvvv", "--diff"),
            *("-e", f"folder={folder}", str(folder / "play.yml")),
        ],
        cwd=folder,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
    )


def test_as_a_playbook_calls_it(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "own.sh.j2").write_text(
        '{% extends "serve_decode.sh.j2" %}\n{% block before %}\nulimit -l unlimited\n{% endblock %}\n'
    )
    (tmp_path / "templates" / "secret.sh.j2").write_text(
        '{% extends "serve_decode.sh.j2" %}\n{% block before %}\nexport HF_TOKEN=hf_geheim\n{% endblock %}\n'
    )
    keys = tmp_path / "keys.yaml"
    keys.write_text("api-key: sk-geheim\n")
    keys.chmod(0o600)
    ended = play(tmp_path)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said[-5000:]
    told = json.loads((tmp_path / "told.json").read_text())

    prefill = (tmp_path / "serve_prefill.sh").read_text()
    assert "export SGLANG_DSV4_KV_LAYOUT=packed\nexport SGLANG_OCTAL=010\n# <<< pdops knobs <<<\n" in prefill
    assert (
        "--disaggregation-mode prefill --disaggregation-bootstrap-port 8999" in prefill
        and "--tp-size 4 \\\n" in prefill
    )
    assert prefill.endswith(f"  --config {tmp_path}/keys.yaml\n")
    router = (tmp_path / "serve_router.sh").read_text()
    assert "--prefill http://127.0.0.1:30000 8999 \\\n  --decode http://127.0.0.1:30001 \\\n" in router
    assert "--prometheus-host 127.0.0.1 --prometheus-port 29001" in router and "SGLANG" not in router
    rendered = [item["diff"]["after"] for item in told["done"]]
    assert 'export SGLANG_NASTY="it\'s \\$HOME \\\\ \\"x\\""\n' in rendered[1]
    assert (
        '--extra-metric-labels \'{"site": "it\'"\'"\'s ünï"}\'' in rendered[1]
        and "--mem-fraction-static 0.85" in rendered[1]
    )
    assert (tmp_path / "serve_decode.sh").stat().st_mode & 0o777 == 0o750

    own = (tmp_path / "serve_decode.sh").read_text()
    assert "\nsource /opt/sglang/venv/bin/activate\nulimit -l unlimited\n\n# >>> pdops knobs" in own
    assert told["own"]["knobs"] == {
        "SGLANG_LOG_MS": {"before": None, "after": "1"},
        "SGLANG_OCTAL": {"before": "010", "after": None},
        "SGLANG_NASTY": {"before": 'it\'s $HOME \\ "x"', "after": None},
    }
    messages = [item["msg"] for item in told["refused"]]
    for message, part in zip(
        messages,
        (
            "HF_TOKEN looks like a secret",
            "would have a secret in line 6",
            "there is no template nosuch.sh.j2",
            "instance=nobody is no host",
            "src is set by serve_script itself",
            "is not what it was",
            "take: these belong to three_way=true",
            "SGLANG_LOG_MS is '1' on the machine, set by an edit outside a change of somebody",
        ),
        strict=True,
    ):
        assert part in message, messages
    assert own == (tmp_path / "serve_decode.sh").read_text()
    assert {row["name"]: row["act"] for row in told["compared"]["decisions"] if row["act"] != "none"} == {
        "SGLANG_LOG_MS": "apply"
    }
    assert told["compared"]["changed"] is True and told["compared"]["write_down"] == {}

    journal = (tmp_path / "state" / "journal.jsonl").read_text()
    for secret in SECRETS:
        # A template that a person wrote is a file of the controller, and the play's own text is Ansible's to show.
        assert secret not in journal + json.dumps(told["own"]) + json.dumps(messages) + json.dumps(told["done"])
        assert secret not in _without_the_items(said)
    assert "exec python" not in _module_parameters(said)
    assert [json.loads(line)["verb"] for line in journal.splitlines()] == ["serve_script"] * 4
    assert list(tmp_path.glob(".pdops-*")) == []


def _without_the_items(said: str) -> str:
    """Without the loop's items, which this play itself holds a secret in."""
    return "\n".join(line for line in said.splitlines() if "item=" not in line and "HF_TOKEN: hf_geheim" not in line)


def _module_parameters(said: str) -> str:
    """The invocations, as -vvv shows them."""
    lines = said.splitlines()
    starts = [number for number, line in enumerate(lines) if line.strip() == "invocation:" or '"invocation"' in line]
    assert starts
    return "\n".join("\n".join(lines[start : start + 20]) for start in starts)


def test_the_documentation_agrees_with_what_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    documented = yaml.safe_load(serve_script.DOCUMENTATION)["options"]
    with patch_module_args({"path": "/x"}), pytest.raises(SystemExit):
        serve_script.main()
    assert "was called without its action" in json.loads(capsys.readouterr().out)["msg"]
    with patch_module_args({"path": "/x", "nosuch": 1}), pytest.raises(SystemExit):
        serve_script.main()
    source = Path(serve_script.__file__).read_text()
    for name, option in documented.items():
        assert f'"{name}": {{"type": "{option["type"]}"' in source
    examples = yaml.safe_load(serve_script.EXAMPLES)
    assert all(set(task["pdops.sglang.serve_script"]) <= set(documented) for task in examples)
    for role in ("prefill", "decode", "router"):
        assert f"(serve_{role}.sh.j2)" in serve_script.EXAMPLES
