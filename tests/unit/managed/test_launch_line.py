# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the variables of an instance become, and which of them are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.managed.launch_line import launch_of
from ansible_collections.pdops.sglang.plugins.module_utils.managed.options import merge_options, read_options
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError

from .rendering import BY_ROLE, DECODE, INSTANCES, PAIR, launch


def words(role: str, peers: list[Instance] = INSTANCES, **changed: Any) -> list[str]:
    return [word for group in launch(role, peers, **changed).arguments for word in group]


def read(given: Any) -> Any:
    return read_options("pd_arguments", given, {"port": "pd_url"}, "put it elsewhere.")


def test_forms_of_options() -> None:
    assert read(
        {"a": 1, "b-c": "x y", "d_e": 0.85, "--f": True, "g": False, "h": None, "i": [1, "b"], "j": {"k": "v"}, "l": -1, "m": []}
    ) == {
        "a": ("--a", "1"),
        "b-c": ("--b-c", "x y"),
        "d-e": ("--d-e", "0.85"),
        "f": ("--f",),
        "g": None,
        "h": None,
        "i": ("--i", "1", "b"),
        "j": ("--j", '{"k": "v"}'),
        "l": ("--l=-1",),
        "m": None,
    }  # fmt: skip
    assert read({"tp": 4}) == read({"tensor_parallel_size": 4}) == {"tp-size": ("--tp-size", "4")}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["a"], "pd_arguments is no mapping"),
        ({"A": 1}, "is no name of an option"),
        ({"a b": 1}, "is no name of an option"),
        ({"a;b": 1}, "is no name of an option"),
        ({1: 1}, "is no name of an option"),
        ({"port": 1}, "--port is written from pd_url"),
        ({"tp": 1, "tp-size": 1}, "--tp-size twice under two spellings"),
        ({"a": "x\ny"}, "the value of --a has a line end"),
        ({"a": "x\ry"}, "has a line end"),
        ({"a": "x\0y"}, "NUL"),
        ({"a": [["x"]]}, "give a string or a number"),
        ({"a": [True]}, "give a string or a number"),
        ({"a": ["-x"]}, "begins with a dash"),
        ({"a": "\ud800"}, "cannot be written as UTF-8"),
        ({"api-key": "sk-geheim"}, "--api-key is a secret, and everybody on the machine sees command lines; put it elsewhere"),
        ({"admin_api_key": "sk-geheim"}, "is a secret"),
        ({"ssl-keyfile-password": "geheim"}, "is a secret"),
    ],
)  # fmt: skip
def test_options_that_are_refused(given: Any, told: str) -> None:
    with pytest.raises(PdopsError, match=told) as refused:
        read(given)
    assert "geheim" not in str(refused.value)


def test_pair_and_own_options() -> None:
    pair, own = read({"page-size": 64, "a": 1}), read({"a": 1, "page-size": 64, "b": 2})
    assert list(merge_options("d", pair, own)) == ["page-size", "a", "b"]
    with pytest.raises(PdopsError, match="d: --a is '--a 1' in pd_pair_arguments and '--a 2' in pd_arguments"):
        merge_options("d", pair, read({"a": 2}))
    with pytest.raises(PdopsError, match="d: --a is '--a 1' in pd_pair_arguments and left out in pd_arguments"):
        merge_options("d", pair, read({"a": False}))
    for name in ("kv-cache-dtype", "disaggregation-transfer-backend", "dsv4-attn-backend"):
        with pytest.raises(PdopsError, match="must be equal on prefill and decode; put it into pd_pair_arguments"):
            merge_options("d", pair, read({name: "x"}))


ARGUMENTS = PAIR["pd_pair_arguments"]


@pytest.mark.parametrize(
    ("role", "changed", "told"),
    [
        ("decode", {"pd_model_path": ""}, "dsv4-decode: pd_model_path is not set"),
        ("decode", {"pd_gpus": None}, "pd_gpus is not set; list the GPUs"),
        ("decode", {"pd_gpus": "4-7"}, "pd_gpus is '4-7'; list the GPUs"),
        ("decode", {"pd_gpus": [4, 4]}, "with a GPU in it twice"),
        ("decode", {"pd_numa_node": [1, 1]}, "or a list of 4, one for each"),
        ("decode", {"pd_numa_node": "one"}, "pd_numa_node is 'one'"),
        ("decode", {"pd_arguments": {"base-gpu-id": 4}}, "written from pd_gpus .CUDA_VISIBLE_DEVICES."),
        ("decode", {"pd_arguments": {"numa-node": 1}}, "written from pd_numa_node"),
        ("decode", {"pd_arguments": {"tp": 8}}, "'--tp-size 4' in pd_pair_arguments and '--tp-size 8'"),
        ("decode", {"pd_gpus": [4, 5], "pd_numa_node": None}, "tp-size times pp-size is 4, but pd_gpus lists 2"),
        ("decode", {"pd_pair_arguments": {}}, "silently take mooncake"),
        ("decode", {"pd_pair_arguments": {**ARGUMENTS, "disaggregation-transfer-backend": None}}, "silently take mooncake"),
        ("decode", {"pd_arguments": {"api-key": "sk-geheim"}}, "name that file in pd_engine_config"),
        ("decode", {"pd_engine_config": "/etc/keys"}, "ends in .yaml or .yml"),
        ("decode", {"pd_engine_config": "keys.yaml"}, "must be an absolute path"),
        ("decode", {"pd_venv": "venv"}, "pd_venv is 'venv'; it must be an absolute path"),
        ("decode", {"pd_offline": "yes"}, "pd_offline is 'yes'; it must be true or false"),
        ("decode", {"pd_knobs": {"CUDA_VISIBLE_DEVICES": "0"}}, "take it out of the knobs .set pd_gpus."),
        ("decode", {"pd_knobs": {"SPT_NOENV": 0}}, "gate effective needs it"),
        ("decode", {"pd_pair_knobs": {"A": 1}, "pd_knobs": {"A": 2}}, "dsv4-decode: A is '1' in pd_pair_knobs and '2'"),
        ("router", {"pd_arguments": {"api-key": "sk-geheim"}}, "the router takes it in no other way"),
        ("router", {"pd_arguments": {"control-plane-api-keys": ["sk-geheim"]}}, "the router takes it in no other way"),
        ("router", {"pd_arguments": {"prefill": "http://x"}}, "written from the prefill instances of the deployment"),
    ],
)  # fmt: skip
def test_variables_that_are_refused(role: str, changed: dict[str, Any], told: str) -> None:
    with pytest.raises(PdopsError, match=told) as refused:
        launch(role, **changed)
    assert "geheim" not in str(refused.value)


def test_a_knob_that_the_template_writes_alike_is_no_contradiction() -> None:
    assert launch("decode", pd_knobs={"SPT_NOENV": 1}).knobs == {}


def test_gpus_and_nodes() -> None:
    made = launch("decode", pd_gpus="4, 5,6,7", pd_numa_node=[0, 0, 1, 1])
    assert made.exports["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    assert ("--numa-node", "0", "0", "1", "1") in made.arguments
    one = launch("decode", pd_gpus=5, pd_pair_arguments={**ARGUMENTS, "tp-size": 1}, pd_numa_node=1)
    assert one.exports["CUDA_VISIBLE_DEVICES"] == "5" and ("--numa-node", "1") in one.arguments
    assert "--numa-node" not in words("decode", pd_numa_node=None)
    assert (
        launch("decode", pd_gpus=["GPU-1a-2b", "MIG-3c", 2, 3]).exports["CUDA_VISIBLE_DEVICES"]
        == "GPU-1a-2b,MIG-3c,2,3"
    )


def with_ports(*ports: int, decode: int | None = None) -> list[Instance]:
    prefills = [
        replace(BY_ROLE["prefill"], name=f"p{number}", url=f"http://127.0.0.1:{31000 + number}", bootstrap_port=port)
        for number, port in enumerate(ports)
    ]
    return [*prefills, replace(BY_ROLE["decode"], bootstrap_port=decode), BY_ROLE["router"]]


def test_the_bootstrap_port_is_the_prefills_everywhere() -> None:
    peers = with_ports(8999)
    assert "8999" in words("decode", peers)
    told = words("router", peers)
    assert told[told.index("--prefill") : told.index("--prefill") + 3] == [
        "--prefill",
        "http://127.0.0.1:31000",
        "8999",
    ]


def test_several_prefills() -> None:
    told = " ".join(words("router", with_ports(8998, 8999)))
    assert "--prefill http://127.0.0.1:31000 8998 --prefill http://127.0.0.1:31001 8999 --decode" in told
    with pytest.raises(PdopsError, match=r"different bootstrap ports \(8998, 8999\); give decode one of them"):
        words("decode", with_ports(8998, 8999))


def test_a_decode_that_names_another_port_is_refused() -> None:
    peers = with_ports(8998, 8999, decode=8999)
    flat = [word for group in launch_of(peers[2], peers, DECODE).arguments for word in group]
    assert flat[flat.index("--disaggregation-bootstrap-port") + 1] == "8999"
    wrong = with_ports(8998, decode=9000)
    with pytest.raises(PdopsError, match="pd_bootstrap_port is 9000, but that of prefill is 8998"):
        launch_of(wrong[1], wrong, DECODE)


def test_a_deployment_without_a_peer_is_refused() -> None:
    with pytest.raises(PdopsError, match="has no decode to route to"):
        words("router", [BY_ROLE["prefill"], BY_ROLE["router"]])
    with pytest.raises(PdopsError, match="has no prefill, whose bootstrap port"):
        words("decode", [BY_ROLE["decode"]])


def test_addresses() -> None:
    told = words("decode", pd_listen="0.0.0.0")
    assert told[told.index("--host") : told.index("--host") + 4] == ["--host", "0.0.0.0", "--port", "30001"]
    told = words("router", pd_arguments={"policy": "round_robin", "health-check-interval-secs": None})
    assert "round_robin" in told and "cache_aware" not in told and "--health-check-interval-secs" not in told
    assert "--enable-metrics" not in words("prefill", pd_arguments={"enable-metrics": False})


def test_a_router_that_is_reached_by_a_name_listens_on_all_addresses() -> None:
    """Seen on the real one: it takes no name."""

    def host(url: str, **changed: Any) -> str:
        router = replace(BY_ROLE["router"], url=url)
        flat = [word for group in launch_of(router, INSTANCES, changed).arguments for word in group]
        return flat[flat.index("--host") + 1]

    assert host("http://gw1.example.net:8000") == "0.0.0.0"
    assert host("http://localhost:8000") == "127.0.0.1" and host("http://10.1.2.3:8000") == "10.1.2.3"
    assert host("http://gw1.example.net:8000", pd_listen="10.1.2.3") == "10.1.2.3"
    with pytest.raises(PdopsError, match="pd_listen is 'gw1'; the router takes an IP address only"):
        host("http://gw1.example.net:8000", pd_listen="gw1")


def test_names_for_comments_have_no_line_end() -> None:
    assert launch("decode", pd_deployment="ünï").deployment == "?n?"


def test_the_real_router_takes_the_arguments() -> None:
    launcher = pytest.importorskip("sglang_router.launch_router")
    router = replace(BY_ROLE["router"], metrics_url="http://127.0.0.1:29001/metrics")
    peers = [*with_ports(8998, 8999, decode=8999)[:3], router]
    made = launch_of(router, peers, {"pd_arguments": {"prefill-policy": "random", "request-timeout-secs": 600}})
    taken = launcher.parse_router_args([word for group in made.arguments for word in group])
    assert taken.pd_disaggregation is True
    assert taken.prefill_urls == [("http://127.0.0.1:31000", 8998), ("http://127.0.0.1:31001", 8999)]
    assert taken.decode_urls == ["http://127.0.0.1:30001"]
    assert (taken.host, taken.port, taken.prometheus_host, taken.prometheus_port) == (
        "127.0.0.1",
        8000,
        "127.0.0.1",
        29001,
    )
    assert (taken.prefill_policy, taken.request_timeout_secs, taken.cb_timeout_duration_secs) == ("random", 600, 15)
