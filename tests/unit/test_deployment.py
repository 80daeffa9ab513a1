# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import (
    Instance,
    check_deployment,
    check_limit,
    instance_from_dict,
    instance_from_variables,
    leaders,
)
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError


def variables(**more: Any) -> dict[str, Any]:
    return {
        "group_names": ["dsv4_instances", "instances", "decode"],
        "pd_unit": "sglang-dsv4-decode",
        "pd_serve_script": "/root/serve_dsv4_decode.sh",
        "pd_url": "http://127.0.0.1:30001/",
        "ansible_host": "gpu1",
        **more,
    }


def test_an_instance_is_read_from_inventory_variables() -> None:
    found = instance_from_variables("dsv4-decode", variables(pd_load_timeout_s="120"))

    assert (found.role, found.url, found.machine, found.load_timeout_s) == (
        "decode",
        "http://127.0.0.1:30001",
        "gpu1",
        120.0,
    )
    assert found.manager == "systemd"
    assert instance_from_dict(found.as_dict()) == found


def test_a_prefill_without_a_bootstrap_port_has_sglangs_default() -> None:
    assert instance_from_variables("p", variables(group_names=["prefill"])).bootstrap_port == 8998
    assert instance_from_variables("d", variables()).bootstrap_port is None


def test_instances_on_one_host_with_several_ports_are_several_machines() -> None:
    here = instance_from_variables("d", variables(ansible_port=2222))
    there = instance_from_variables("d", variables(ansible_port=2223))
    assert here.machine != there.machine
    assert instance_from_variables("d", variables(pd_machine="box", ansible_port=2222)).machine == "box"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pd_unit": None}, "d: pd_unit is not set"),
        ({"pd_pair_knobs": ["UCX_TLS"]}, "d: pd_pair_knobs is a list; it must be a mapping"),
        ({"pd_knobs": "A=1"}, "d: pd_knobs is a string; it must be a mapping"),
        ({"pd_unit": "a b; rm"}, "pd_unit is 'a b; rm'"),
        ({"pd_serve_script": "serve.sh"}, "must be an absolute path"),
        ({"pd_url": "127.0.0.1:30001"}, "must look like http://"),
        ({"pd_url": "http://127.0.0.1:99999"}, "must look like http://"),
        ({"pd_service_manager": "docker"}, "must be systemd or supervisor"),
        ({"pd_service_manager": "supervisor"}, "pd_supervisor_config does not say"),
        ({"pd_bootstrap_port": "x"}, "must be a port"),
        ({"pd_load_timeout_s": "soon"}, "must be a number of seconds"),
        ({"pd_load_timeout_s": -1}, "between 0 and 86400"),
        ({"group_names": ["instances"]}, "is in none of the groups"),
        ({"group_names": ["prefill", "decode"]}, "more than one of the groups"),
        ({"pd_role": "encode"}, "must be prefill, decode or router"),
    ],
)
def test_wrong_variables_are_refused_in_one_sentence_that_names_them(change: dict[str, Any], words: str) -> None:
    with pytest.raises(PdopsError) as refused:
        instance_from_variables("d", variables(**change))
    assert words in str(refused.value)
    assert "d" in str(refused.value).split(":")[0]


def test_a_deployment_leads_itself_and_named_instances_lead_in_its_place() -> None:
    groups = {
        "pd_deployments": ["east", "west"],
        "east_instances": ["ep", "ed", "er"],
        "west_instances": ["wp", "wd", "wr"],
    }
    assert leaders(["east", "ep", "ed", "er", "other"], groups) == {"east": {"deployment": "east", "limited_to": []}}
    assert leaders(["ed", "er", "west"], groups) == {
        "ed": {"deployment": "east", "limited_to": ["ed", "er"]},
        "west": {"deployment": "west", "limited_to": []},
    }
    assert leaders(["other"], groups) == {}
    assert leaders(["x"], {}) == {}


def test_a_limit_with_a_name_that_is_nowhere_is_refused_with_the_names_that_are() -> None:
    groups = {"all": ["east", "ep", "west"], "pd_deployments": ["east", "west"], "east_instances": ["ep"]}
    for fine in (
        "",
        "east",
        "east,ep",
        "east:!ep",
        "pd_deployments:&east",
        "ea*",
        "~e.*",
        "pd_deployments[0:1]",
        "@retry",
    ):
        check_limit(fine, groups)
    for odd in ("east,wset", "east:!wset", "wset"):
        with pytest.raises(PdopsError, match=r"-l wset: the inventory has no such .* its deployments are east, west;"):
            check_limit(odd, groups)


def three(**per_role: dict[str, Any]) -> list[Instance]:
    return [
        instance_from_variables(
            role,
            variables(
                **{
                    "group_names": [role],
                    "pd_unit": role,
                    "pd_serve_script": f"/root/{role}.sh",
                    "pd_url": f"http://127.0.0.1:{30000 + number}",
                    **per_role.get(role, {}),
                }
            ),
        )
        for number, role in enumerate(("router", "decode", "prefill"))
    ]


def test_the_start_order_is_prefill_decode_router() -> None:
    assert [item.role for item in check_deployment("x", three())] == ["prefill", "decode", "router"]


def test_a_deployment_without_a_role_or_with_clashes_is_refused() -> None:
    with pytest.raises(PdopsError, match="has no instances"):
        check_deployment("x", [])
    with pytest.raises(PdopsError, match="x has no prefill"):
        check_deployment("x", three()[:2])
    with pytest.raises(PdopsError, match="decode and router have the same unit router on machine gpu1"):
        check_deployment("x", three(decode={"pd_unit": "router"}))
    with pytest.raises(PdopsError, match="have the same serve script"):
        check_deployment("x", three(decode={"pd_serve_script": "/root/router.sh"}))
    with pytest.raises(PdopsError, match="have the same URL"):
        check_deployment("x", three(decode={"pd_url": "http://127.0.0.1:30000"}))
    # The same unit on another machine is another unit.
    assert check_deployment("x", three(decode={"pd_unit": "router", "ansible_host": "gpu2"}))
