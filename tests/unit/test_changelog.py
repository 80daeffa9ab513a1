# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The change log tells of the version in galaxy.yml and of all that came with it; fragments are in the format of antsibull-changelog."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "changelogs"
CONFIG = yaml.safe_load((FOLDER / "config.yaml").read_text())
VERSION = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
RELEASES: dict[str, Any] = yaml.safe_load((FOLDER / "changelog.yaml").read_text())["releases"]
FRAGMENTS = sorted(path for path in (FOLDER / "fragments").iterdir() if path.suffix in (".yml", ".yaml"))


def described(path: Path) -> str:
    """``short_description`` of a module or filter, as the change log writes it."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DOCUMENTATION":
            return str(yaml.safe_load(ast.literal_eval(node.value))["short_description"]).rstrip(".") + "."
    raise AssertionError(f"{path} has no DOCUMENTATION")


def test_the_version_of_the_collection_is_told() -> None:
    assert VERSION in RELEASES and RELEASES[VERSION]["changes"]["release_summary"]
    assert f"v{VERSION}\n" in (ROOT / "CHANGELOG.rst").read_text()


def test_everything_that_is_there_came_with_a_release_in_its_present_words() -> None:
    told: dict[str, str] = {}
    for release in RELEASES.values():
        plugins = [item for kind in release.get("plugins", {}).values() for item in kind]
        roles = [item for kind in release.get("objects", {}).values() for item in kind]
        told.update({item["name"]: item["description"] for item in (*release.get("modules", []), *plugins, *roles)})
    there = {
        path.stem: described(path) for room in ("library", "filter_plugins") for path in (ROOT / room).glob("*.py")
    }
    for path in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        main = yaml.safe_load(path.read_text())["argument_specs"]["main"]
        there[path.parts[-3]] = f"{main['short_description']}."
    assert len(there) > 30
    assert told == there, "tools/changelog release brings it up to date"
    text = (ROOT / "CHANGELOG.rst").read_text()
    assert [name for name in there if f"- pdops.sglang.{name} - {there[name]}" not in text] == []


@pytest.mark.parametrize("path", FRAGMENTS or [None])
def test_a_fragment_has_sections_and_entries(path: Path | None) -> None:
    if path is None:
        assert (FOLDER / "fragments" / ".keep").exists()  # nothing has changed since the last release
        return
    known = {section for section, _title in CONFIG["sections"]} | {"release_summary", CONFIG["trivial_section_name"]}
    found = yaml.safe_load(path.read_text())
    assert set(found) <= known
    for section, entries in found.items():
        kind = str if section == "release_summary" else list
        assert isinstance(entries, kind) and entries, section
