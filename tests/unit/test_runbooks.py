# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the runbooks promise beside their commands, which `tests/lab/test_runbooks.py` types: sections, links, messages, verbs."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from module_utils.gates.base import GATES
from tests.lab.runbook import INTERRUPT, Command, commands, difference

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "runbooks"
#: Each with how many commands it has at least, so that an extractor that finds none cannot pass.
LEAST = {
    "restore-a-knob.md": 3,
    "co-restart.md": 3,
    "decode-only-restart.md": 1,
    "revert.md": 2,
    "rollback.md": 3,
    "deploy.md": 3,
    "deploy-kernels.md": 4,
}
SECTIONS = ["When", "Before", "Do it", "What good looks like", "What if not", "To stop in the middle"]
#: Messages that are put together while a program runs, each with a part of it that stands in one text.
COMPOSED = {
    "nothing to revert": "nothing to ",
    "differs in more than": " in more than ",
    "requests lost": "Requests lost",
    "decode alone was not enough": " was not enough,",
    "waiting for it to end its requests": "to end its requests",
}
_ROW = re.compile(r"^\| (.+?) \| (.+) \|$", re.MULTILINE)


def text_of(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def outside_of_blocks(name: str) -> str:
    return re.sub(r"^```.*?^```$", "", text_of(name), flags=re.MULTILINE | re.DOTALL)


@cache
def said() -> list[str]:
    """What pdops can say: the fixed parts of every text in its programs."""
    found = []
    for room in ("module_utils", "library", "action_plugins", "filter_plugins"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return found + [path.read_text(encoding="utf-8") for path in (ROOT / "roles").rglob("*.yml")]


def test_every_page_is_known_here_and_in_the_list() -> None:
    assert {path.name for path in FOLDER.glob("*.md")} == {*LEAST, "README.md"}
    listed = re.findall(r"^\| \[[^]]+\]\(([a-z-]+\.md)\)", text_of("README.md"), re.MULTILINE)
    assert listed == list(LEAST), "in the order in which the lab types them"


@pytest.mark.parametrize("name", LEAST)
def test_a_page_has_all_sections_in_order_and_its_commands(name: str) -> None:
    assert re.findall(r"^## (.+)$", outside_of_blocks(name), re.MULTILINE) == SECTIONS
    found = commands(text_of(name))
    assert len(found) >= LEAST[name]
    assert all(command.expected for command in found), "what it prints is part of the page"
    assert any(not command.fails and "--check" not in command.text for command in found)


@pytest.mark.parametrize("name", [*LEAST, "README.md"])
def test_every_verb_named_is_a_playbook_and_every_link_leads_somewhere(name: str) -> None:
    for verb in re.findall(r"ansible-playbook ([\w.]+)", text_of(name)):
        assert (ROOT / verb).is_file() and (ROOT / "playbooks" / verb).is_file(), verb
    for target, place in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", outside_of_blocks(name)):
        page = FOLDER / (target or name)
        assert page.is_file(), target
        headings = [
            re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-")
            for line in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        ]
        assert not place or place in headings, f"{target}#{place}"


@pytest.mark.parametrize("name", [*LEAST, "README.md"])
def test_every_message_in_a_table_is_one_that_pdops_gives(name: str) -> None:
    rows = [row for row in _ROW.findall(outside_of_blocks(name)) if "`" in row[0]]
    assert len(rows) >= 4
    for message in [quoted for row in rows for quoted in re.findall(r"`([^`]+)`", row[0])]:
        gate = re.fullmatch(r"gate (\w+)", message)
        for part in [gate[1]] if gate else COMPOSED.get(message, message).split("…"):
            known = part in GATES if gate else any(part.strip() in text for text in said())
            assert known, f"{name}: nothing says {message!r}"


def test_the_readme_leads_to_each_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in (*LEAST, "README.md"):
        assert f"(docs/runbooks/{name})" in readme, name


@pytest.mark.parametrize("name", LEAST)
def test_any_line_of_a_page_that_the_output_lacks_or_has_otherwise_is_found(name: str) -> None:
    """For each command, the page's own lines are an output that fits; with any one of them altered or gone it does not."""
    for command in commands(text_of(name)):
        shown = [line for line in command.expected if line.strip() and line != INTERRUPT]
        assert not difference(command.expected, "\n".join(shown))
        for place, line in enumerate(shown):
            if line.strip() == "…":
                continue
            word = max(re.findall(r"[A-Za-z_]+", line) or [line], key=len)
            altered = [*shown[:place], line.replace(word, f"{word}x", 1), *shown[place + 1 :]]
            assert difference(command.expected, "\n".join(altered)), line
            assert difference(command.expected, "\n".join(shown[:place] + shown[place + 1 :])), line


PAGE = """
```sh
$ not a command
```

```console
$ one --a
x 0.4 s of process 12

  […] b
$ two
…
y
^C
```
text
"""


def test_the_extractor() -> None:
    first, second = commands(PAGE)
    assert (first.text, first.line, first.interrupted) == ("one --a", 7, False)
    assert second == Command(11, "two", ("…", "y", "^C"))
    assert second.fails and not first.fails
    assert not difference(first.expected, "x 17 s of process 4711\n  [z] b\n\n")
    slow = (
        "  dsv4-decode  3.0 s: waiting for it to start\n  dsv4-decode        12.1 s of at most 30 s: the machine is being asked\n"
        "  dsv4-router  transfer    11.8 s of at most 30 s: not looked at yet\n  dsv4    15.2 s  waiting; last: round 3 of 24 (kept)"
    )
    assert not difference(first.expected, f"x 17 s of process 4711\n{slow}\n  [z] b")
    for wrong in (
        "x 17 s of process 4711",
        "x 17 s of process 4711\n  [z] c",
        "x 17 s of process 4711\n  [z] b\nmore",
        "first\nx 17 s of process 4711\n  [z] b",
        "x 17 s of process 4711\nbetween\n  [z] b",
        "x a s of process 4711\n  [z] b",
        "  [z] b\nx 17 s of process 4711",
        "",
    ):
        assert difference(first.expected, wrong), wrong
    assert not difference(second.expected, "a\nb\ny") and difference(second.expected, "y\nb")
    with pytest.raises(AssertionError, match="begins with a command"):
        commands("```console\noutput\n```")
