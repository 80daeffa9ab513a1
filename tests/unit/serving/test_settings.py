# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What inventory variables mean for a machine, and what is refused before anything is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.serving.clashes import listens_of, refuse_clashes
from ansible_collections.pdops.sglang.plugins.module_utils.serving.settings import KeyFile, Serving, serving_of
from ansible_collections.pdops.sglang.plugins.module_utils.serving.unit_file import service_of
from ansible_collections.pdops.sglang.plugins.module_utils.serving.wheel_set import WheelSet

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
WHEELS = WheelSet("/ops/wheels", (("sglang-0.5.23-py3-none-any.whl", "a" * 64),), ("sglang",))


def instance(role: str, port: int, **more: Any) -> Instance:
    given = {"drain_s": 30.0, "bootstrap_port": 8998 if role == "prefill" else None, **more}
    return Instance(
        f"dsv4-{role}", role, f"sglang-{role}", f"/root/serve_{role}.sh", f"http://127.0.0.1:{port}", "gpu1", **given
    )


def serving(role: str = "decode", port: int = 30001, wheels: WheelSet | None = None, **variables: Any) -> Serving:
    return serving_of(instance(role, port), {"pd_deployment": "dsv4", **variables}, wheels, "/ops/inventory")


def machine() -> list[Serving]:
    """One that can be deployed."""
    found = []
    for role, port, gpus in (("prefill", 30000, "0123"), ("decode", 30001, "4567"), ("router", 8000, "")):
        one = serving(role, port)
        found.append(replace(one, gpus=tuple(gpus), listens=listens_of(one.instance, "127.0.0.1")))
    return found


def unit(one: Serving) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True, keep_trailing_newline=True, autoescape=False
    )
    return str(environment.get_template("serve.service.j2").render(pd_service=service_of(one)))


def test_wheels_name_the_virtual_environment_and_the_cache() -> None:
    one = serving(wheels=WHEELS)
    assert one.venv == f"/opt/pdops/venv-{WHEELS.key}"
    assert one.cache == f"/opt/pdops/cache/dsv4-decode/{WHEELS.key}"
    assert one.caches == (one.cache,)
    assert serving(pd_cache_root="/fast", pd_cache_version="cu13").cache == "/fast/dsv4-decode/cu13"
    # A cache of the operator's own is left to him, but is compared with those of others.
    own = serving(pd_knobs={"SGLANG_CACHE_DIR": "/fast/mine"})
    assert (own.cache, own.caches) == (None, ("/fast/mine",))
    assert serving("router", 8000, wheels=WHEELS).cache is None


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"pd_unit_numa": 0, "pd_numactl": ["--membind=0"]},
            "pd_unit_numa pins by the unit and pd_numactl by the launch",
        ),
        ({"pd_unit_cpus": "0-31", "pd_numa_node": 0}, "pd_unit_cpus pins by the unit and pd_numa_node by the launch"),
        ({"pd_numactl": ["--membind=0"], "pd_numa_node": 0}, "pin twice"),
        ({"pd_unit_cpus": "all"}, "give numbers and ranges"),
        ({"pd_serve_root": "opt"}, "absolute path"),
        ({"pd_serve_root": "/opt/../etc"}, "without dots"),
        ({"pd_serve_root": "/"}, "a folder of its own"),
        ({"pd_cache_version": "a/b"}, "name of a folder"),
        ({"pd_user": "ro ot"}, "name of a user"),
        ({"pd_user": "sglang"}, "cannot read below /root"),
        ({"pd_longest_generation_s": "long"}, "must be seconds"),
        ({"pd_key_files": [{"src": "/no/such", "dest": "/etc/k"}]}, "no such file on the controller"),
        ({"pd_key_files": [{"src": "k"}]}, "src and dest"),
        ({"pd_key_files": [{"src": "k", "dest": "k"}]}, "absolute path on the machine"),
        ({"pd_service_options": {"ExecStart": "/bin/true"}}, "which comes from pd_serve_script"),
        ({"pd_service_options": {"PrivateDevices": True}}, "deny the engine its GPUs"),
        ({"pd_service_options": {"Memory Max": "4G"}}, "no directive of systemd"),
        ({"pd_service_options": {"MemoryMax": "4G\nExecStartPre=/bin/evil"}}, "line end"),
        ({"pd_service_options": {"MemoryMax": "4G\\"}}, "backslash"),
    ],
)
def test_what_cannot_work_is_refused_with_the_variables_name(variables: dict[str, Any], words: str) -> None:
    with pytest.raises(PdopsError, match="dsv4-decode") as refused:
        serving(**variables)
    assert words in str(refused.value)


def test_wheels_and_a_virtual_environment_of_ones_own_contradict_each_other() -> None:
    with pytest.raises(PdopsError, match="give one of them"):
        serving(wheels=WHEELS, pd_venv="/opt/venv")


def test_supervisor_has_no_unit_file_and_cannot_pin() -> None:
    under = instance("decode", 30001, manager="supervisor", supervisor_config="/s.conf")
    assert serving_of(under, {}, None, "/").unit_path is None
    with pytest.raises(PdopsError, match="needs systemd"):
        serving_of(under, {"pd_unit_cpus": "0-3"}, None, "/")


def test_the_unit_says_how_an_engine_stops_and_what_it_may() -> None:
    text = unit(serving(pd_unit_numa="1", pd_service_options={"MemoryMax": "400G", "ReadWritePaths": ["/a", "/b"]}))
    lines = text.splitlines()
    for line in (
        "ExecStart=/bin/bash /root/serve_decode.sh",
        "KillMode=mixed",
        "TimeoutStopSec=405",  # 300 s of generation, 30 s of drain, 75 s of SGLang's own
        "Restart=on-failure",
        "LimitMEMLOCK=infinity",
        "NUMAPolicy=bind",
        "NUMAMask=1",
        "CPUAffinity=numa",
        "MemoryMax=400G",
        "ReadWritePaths=/a",
        "ReadWritePaths=/b",
        "WantedBy=multi-user.target",
    ):
        assert line in lines
    # Scripts lie under /root, and kernels are compiled.
    assert not [line for line in lines if line.startswith(("ProtectHome=", "PrivateTmp=", "MemoryDenyWriteExecute="))]
    assert "NUMAPolicy" not in unit(serving()) and "CPUAffinity=0-31" in unit(serving(pd_unit_cpus="0-31"))


def test_a_path_with_blanks_and_percents_is_quoted_as_systemd_wants() -> None:
    odd = replace(instance("decode", 30001), serve_script="/root/my %n$x.sh")
    assert 'ExecStart=/bin/bash "/root/my %%n$$x.sh"' in unit(serving_of(odd, {}, None, "/"))


def test_what_the_example_has_does_not_clash() -> None:
    refuse_clashes(machine())


def changed(name: str, **more: Any) -> list[Serving]:
    return [
        replace(
            one,
            **{key: value for key, value in more.items() if key != "instance"},
            instance=replace(one.instance, **more.get("instance", {})),
        )
        if one.instance.role == name
        else one
        for one in machine()
    ]


@pytest.mark.parametrize(
    ("servings", "words"),
    [
        (changed("decode", gpus=("3", "4")), "both have GPU 3 in pd_gpus"),
        (changed("decode", instance={"unit": "sglang-prefill.service"}), "same unit sglang-prefill.service"),
        (changed("decode", instance={"serve_script": "/root//serve_prefill.sh"}), "same script /root/serve_prefill.sh"),
        (changed("decode", listens=(("its API (pd_url)", "127.0.0.1", 30000),)), "both listen on port 30000"),
        (changed("decode", listens=(("its API (pd_url)", "0.0.0.0", 8998),)), "for its bootstrap server"),
        (changed("router", listens=(("its API (pd_url)", "127.0.0.1", 30001),)), "port 30001"),
        (changed("decode", caches=("/opt/pdops/cache/dsv4-prefill/1/sub",)), "same folder"),
        (
            changed("prefill", listens=(("its API", "127.0.0.1", 1), ("its bootstrap server", "127.0.0.1", 1))),
            "both port 1",
        ),
    ],
)
def test_a_clash_names_both_the_machine_and_what(servings: list[Serving], words: str) -> None:
    with pytest.raises(PdopsError) as refused:
        refuse_clashes(servings)
    assert words in str(refused.value)
    assert "dsv4-prefill" in str(refused.value) or "dsv4-decode" in str(refused.value)


def test_all_clashes_are_told_at_once() -> None:
    with pytest.raises(PdopsError, match="3 mistakes in the inventory, and nothing was touched") as refused:
        refuse_clashes(
            changed("decode", gpus=("3",), instance={"unit": "sglang-prefill", "serve_script": "/root/serve_router.sh"})
        )
    words = ("same unit sglang-prefill", "have GPU 3", "same script /root/serve_router.sh")
    assert all(word in said for word, said in zip(words, refused.value.details["mistakes"], strict=True))


def test_other_machines_and_other_addresses_do_not_clash() -> None:
    refuse_clashes(changed("decode", gpus=("0",), instance={"machine": "gpu2", "unit": "sglang-prefill"}))
    refuse_clashes(changed("decode", listens=(("its API (pd_url)", "10.0.0.2", 30000),)))


def test_a_key_may_be_shared_but_not_fought_over() -> None:
    key = KeyFile("/ops/key", "/etc/sglang/keys.yaml")
    both = [replace(one, keys=(key,)) for one in machine()]
    refuse_clashes(both)
    with pytest.raises(PdopsError, match=r"both write /etc/sglang/keys\.yaml"):
        refuse_clashes([*both[:2], replace(both[2], keys=(KeyFile("/ops/other", key.path),))])


@pytest.mark.parametrize(
    ("dest", "words"),
    [
        ("/root/serve_decode.sh", "which is the script of dsv4-decode"),
        ("/root/serve_prefill.sh", "which is the script of dsv4-prefill"),
        ("/etc/systemd/system/sglang-router.service", "which is the unit of dsv4-router"),
    ],
)
def test_a_key_takes_no_place_of_a_script_or_a_unit(dest: str, words: str) -> None:
    with pytest.raises(PdopsError, match=words):
        refuse_clashes(changed("decode", keys=(KeyFile("/ops/key", dest),)))


def test_one_file_of_keys_has_one_source() -> None:
    keys = (KeyFile("/ops/key", "/etc/k"), KeyFile("/ops/other", "/etc/k"))
    with pytest.raises(PdopsError, match="writes /etc/k twice"):
        refuse_clashes(changed("decode", keys=keys))


def test_two_routers_without_metrics_url_meet_on_the_default_port() -> None:
    one = machine()[2]
    other = replace(
        one,
        instance=replace(one.instance, name="b-router", unit="b", serve_script="/b", url="http://127.0.0.1:8001"),
    )
    with pytest.raises(PdopsError, match="29000"):
        refuse_clashes([one, replace(other, listens=listens_of(other.instance, "127.0.0.1"))])
