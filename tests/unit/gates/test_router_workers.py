# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate router: workers that are missing, forgotten or registered as what they are not; and the options of peers."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils import router_workers
from ansible_collections.pdops.sglang.plugins.module_utils.gates import router
from ansible_collections.pdops.sglang.plugins.module_utils.gates.base import Peer
from ansible_collections.pdops.sglang.plugins.module_utils.gates.request import target_from
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError

PREFILL, DECODE = "http://127.0.0.1:33100", "http://127.0.0.1:33200"
PEERS = (Peer("the-prefill", "prefill", PREFILL, 33198), Peer("the-decode", "decode", DECODE))


@pytest.fixture
def listed(answers, recorded):
    """The workers of the real router; changes of it are what the router tells."""
    data = json.loads(recorded("router_workers.json"))
    answers.paths["/readiness"] = (200, recorded("router_readiness.json"))
    answers.paths["/workers"] = lambda _server: (200, data)
    return data["workers"]


@pytest.fixture
def aged(look, monkeypatch):
    """A function that gives the router an age in seconds."""

    def give(seconds):
        look.memory["main"] = [os.getpid(), 1]
        monkeypatch.setattr(router, "age_s", lambda _ticks: seconds)

    return give


def test_workers_in_their_roles(listed, target, look):
    given = target("router", workers=(PREFILL, DECODE), peers=PEERS)
    assert router.check(given, look).result == "passed"
    listed[1]["worker_type"] = "prefill"
    verdict = router.check(given, look)
    assert verdict.result == "failed"
    assert "the-decode is registered as prefill, but it is a decode" in verdict.said
    assert "ansible-playbook register_worker.yml -l the-decode" in verdict.said
    listed[1]["worker_type"] = "decode"
    listed[0]["bootstrap_port"] = 8998
    assert "registered with bootstrap port 8998, but it has 33198" in router.check(given, look).said
    del listed[0]["bootstrap_port"]
    assert "registered with bootstrap port None" in router.check(given, look).said


def test_a_missing_worker_is_waited_for_as_long_as_the_router_looks_for_it(
    listed, target, look, aged, monkeypatch, tmp_path, answers
):
    script = tmp_path / "serve.sh"
    script.write_text("exec r --worker-startup-timeout-secs 1 \\\n  --worker-startup-timeout-secs \\\n 30\n")
    given = target("router", workers=(PREFILL, DECODE), peers=PEERS, serve_script=str(script))
    del listed[1]
    answers.paths["/readiness"] = (503, {"status": "not ready", "reason": "insufficient healthy workers"})
    aged(29)
    verdict = router.check(given, look)
    assert verdict.result == "pending"
    assert "/readiness 503" in verdict.said
    assert f"decode the-decode ({DECODE}) is not registered (nothing listens at {DECODE}" in verdict.said
    assert "looks for it until --worker-startup-timeout-secs (30 s, serve script)" in verdict.said
    aged(31)
    assert router.check(given, look).result == "pending"  # it may have been registered this moment
    monkeypatch.setattr(router, "LISTED_S", 0.0)
    verdict = router.check(given, look)
    assert verdict.result == "failed"
    assert "forgets a worker that is not up within --worker-startup-timeout-secs (30 s, serve script)" in verdict.said
    assert verdict.said.endswith("register it with ansible-playbook register_worker.yml -l the-decode")
    assert verdict.evidence["missing_ports"] == {DECODE: "refused"}
    assert json.dumps(verdict.evidence)


def test_not_ready_without_a_missing_worker(listed, target, look, answers):
    answers.paths["/readiness"] = (503, {"reason": "insufficient healthy workers"})
    verdict = router.check(target("router", workers=(PREFILL,), peers=PEERS), look)
    assert (verdict.result, "insufficient healthy workers" in verdict.said) == ("pending", True)
    listed[0]["is_healthy"] = False
    verdict = router.check(target("router", workers=(PREFILL,), peers=PEERS), look)
    assert "prefill the-prefill" in verdict.said
    assert "is not healthy to it" in verdict.said


@pytest.mark.parametrize(
    ("key", "words"), [(None, "it wants an API key; set pd_api_key_file"), ("k-7", "is not the one")]
)
def test_keys(listed, target, look, answers, key, words):
    answers.paths["/workers"] = (401, "")
    verdict = router.check(target("router", api_key=key), look)
    assert verdict.result == "failed"
    assert words in verdict.said
    assert "k-7" not in repr(verdict)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("exec r --cb-timeout-duration-secs 15\n", (15.0, "serve script")),
        ("exec r --cb-timeout-duration-secs=2.5 --x\n", (2.5, "serve script")),
        ("exec r '--x' --cb-timeout-duration-secs \"7\"\n", (7.0, "serve script")),
        ("# exec r --cb-timeout-duration-secs 15\nexec r\n", (60.0, "default")),
        ("exec r --no-cb-timeout-duration-secs 15\n", (60.0, "default")),
        ("exec r --cb-timeout-duration-secs $TIME\n", (60.0, "default, and the serve script computes another")),
    ],
)
def test_flags_of_the_router(tmp_path, text, value):
    script = tmp_path / "serve.sh"
    script.write_text(text)
    assert router.flag_seconds(str(script), "--cb-timeout-duration-secs", 60.0) == value
    assert router.flag_seconds(str(tmp_path / "none"), "--cb-timeout-duration-secs", 60.0) == (60.0, "default")


def options(**more):
    return {"name": "r", "role": "router", "unit": "r", "url": "http://127.0.0.1:1", "manager": "systemd", **more}


def test_peers_of_the_inventory(tmp_path):
    key = tmp_path / "key"
    key.write_text("k-1\n")
    key.chmod(0o600)
    peer = {"name": "d", "role": "decode", "url": "http://127.0.0.1:2/", "machine": "m", "bootstrap_port": None}
    (found,) = target_from(options(peers=[peer], api_key="own")).peers
    assert found == Peer("d", "decode", "http://127.0.0.1:2", None, "own")
    (found,) = target_from(options(peers=[{**peer, "api_key_file": str(key)}])).peers
    assert found.api_key == "k-1"
    assert "k-1" not in repr(found)
    # A key file of another machine.
    (found,) = target_from(options(peers=[{**peer, "api_key_file": "/no/such/file"}], api_key="own")).peers
    assert found.api_key == "own"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"peers": [{"name": "x", "url": "http://h:1"}]}, "peer x needs a url, and a role"),
        ({"peers": [{"name": "x", "role": "decode"}]}, "peer x needs a url, and a role"),
        ({"peers": [{"name": "x", "role": "decode", "url": "h:1"}]}, "is not a URL"),
        ({"may_differ": ["page_size"]}, "decode dies of any other difference"),
    ],
)
def test_options_that_are_refused(more, words):
    with pytest.raises(PdopsError, match=words):
        target_from(options(**more))


def test_the_last_healthy_one_of_a_role_is_not_taken_out(answers, recorded):
    data = json.loads(recorded("router_workers.json"))
    answers.paths["/workers"] = lambda _server: (200, data)
    wanted = router_workers.WorkerRequest(answers.url, DECODE, "decode", "absent", least=1)
    data["workers"].append({**data["workers"][1], "id": "other", "url": "http://127.0.0.1:33201", "is_healthy": False})
    with pytest.raises(PdopsError, match="would be left with 0 healthy decode, and 1 must be"):
        router_workers.bring_worker(wanted)
    data["workers"][-1]["is_healthy"] = True
    assert router_workers.bring_worker(wanted, check=True)["changed"]
