# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""All mistakes of an inventory are told at once, each with instance and variable; unknown names are mistakes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.managed.launch_line import launch_of
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.serving.names import KNOWN, lacks_python, unknown_names
from ansible_collections.pdops.sglang.plugins.module_utils.serving.settings import serving_of

ROOT = Path(__file__).resolve().parents[3]
INSTANCES = [
    Instance(f"d-{role}", role, f"s-{role}", f"/srv/{role}.sh", f"http://127.0.0.1:{port}", "gpu1")
    for role, port in (("prefill", 30000), ("decode", 30001), ("router", 8000))
]
GOOD: dict[str, Any] = {
    "pd_model_path": "/models/a",
    "pd_gpus": [0, 1, 2, 3],
    "pd_pair_arguments": {"disaggregation-transfer-backend": "nixl", "tp-size": 4},
}


def mistakes(**variables: Any) -> list[str]:
    with pytest.raises(PdopsError) as refused:
        launch_of(INSTANCES[1], INSTANCES, {**GOOD, **variables})
    return list(refused.value.details.get("mistakes", [str(refused.value)]))


def test_an_unknown_name_is_refused_with_the_one_that_was_meant() -> None:
    names = ["pd_argument", "pd_arguments", "pd_zzz", "ansible_host", "mine", "pd_knob"]
    assert unknown_names("d-decode", names) == [
        "d-decode: pd_argument is unknown; did you mean pd_arguments?",
        "d-decode: pd_knob is unknown; did you mean pd_knobs?",
        "d-decode: pd_zzz is unknown; names that begin with pd_ are pdops' own; name yours otherwise.",
    ]


def test_all_names_that_the_roles_and_the_example_inventories_use_are_known() -> None:
    texts = [path for room in ("roles", "inventory") for path in (ROOT / room).rglob("*.yml")]
    assert len(texts) > 20
    used = {name for path in texts for name in re.findall(r"(?<![\w.])pd_[a-z0-9_]+(?!:$)", path.read_text())}
    modules = {path.stem for path in (ROOT / "library").glob("pd_*.py")}
    made = {"pd_deployments", "pd_launch", "pd_service"}  # a group, and what templates are given
    assert used - modules - made - KNOWN == set()


def test_without_any_python_it_is_said_which_variables_name_one() -> None:
    assert lacks_python("d-decode", {"pd_python": "/opt/python"}) == []
    assert "none of pd_wheels, pd_venv, pd_python is given" in lacks_python("d-decode", {"pd_venv": ""})[0]


@pytest.mark.parametrize("value", ["four", "4x", 0, 4.5, True, [4, 8]])
def test_a_size_that_is_no_number_is_refused_here_and_not_by_the_engine(value: object) -> None:
    (said,) = mistakes(pd_arguments={"dp-size": value})
    assert said.startswith("d-decode: dp-size is '") and "must be a whole number above 0" in said


def test_all_mistakes_of_a_command_are_told_at_once_with_instance_and_variable() -> None:
    said = mistakes(
        pd_gpus=None,
        pd_model_path=None,
        pd_pair_arguments={**GOOD["pd_pair_arguments"], "tp-size": "four"},
        pd_pair_knobs={"1A": 1, "X": True},
        pd_knobs={"HF_TOKEN": "geheim"},
        pd_offline="yes",
        pd_venv="venv",
    )
    starts = [
        "pd_offline is 'yes'",
        "pd_gpus is not set",
        "pd_model_path is not set",
        "tp-size is 'four'",
        "pd_pair_knobs: '1A' cannot be the name",
        "pd_pair_knobs: The value of X is the boolean true",
        "pd_knobs: HF_TOKEN looks like a secret",
        "pd_venv is 'venv'",
    ]
    assert len(said) == len(starts)
    assert all(one.startswith(f"d-decode: {start}") for one, start in zip(said, starts, strict=True))
    assert not any("None" in one or "geheim" in one for one in said)


def test_all_mistakes_of_the_settings_are_told_at_once() -> None:
    variables = {"pd_user": "ro ot", "pd_serve_root": "opt", "pd_unit_cpus": "all", "pd_service_options": {"User": "x"}}
    with pytest.raises(PdopsError, match="4 mistakes in the inventory, and nothing was touched:\n- ") as refused:
        serving_of(INSTANCES[1], variables, None, "/")
    assert [one.split(" ")[1] for one in refused.value.details["mistakes"]] == [
        "pd_serve_root", "pd_user", "pd_unit_cpus", "pd_service_options",
    ]  # fmt: skip


def test_every_name_that_an_inventory_may_give_is_read_and_documented() -> None:
    """One that is known and that nothing reads would be taken without a word and have no effect."""
    rooms = ("roles", "playbooks", "action_plugins", "filter_plugins", "module_utils", "templates")
    code = [path for room in rooms for path in (ROOT / room).rglob("*") if path.suffix in (".py", ".yml", ".j2")]
    read = "\n".join(path.read_text() for path in code if path.name != "names.py")
    told = "\n".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    told += (ROOT / "library" / "serve_script.py").read_text()
    # A name inside of a sentence is not read: it stands in quotes, or behind a dot, or in a template.
    assert [name for name in sorted(KNOWN) if not re.search(rf"[\"'.{{( ]{name}\b(?! is)", read)] == []
    assert [name for name in sorted(KNOWN) if not re.search(rf"\b{name}\b", told)] == []
