# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which command starts the engine, and what ``exec`` and ``env`` in front of it do."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from .nodes import Word

# The module or program of an engine or router, as one argument.
_ENGINE = re.compile(
    r"sglang\.launch_server|sglang\.srt\.|sglang_router|sglang-router|sgl-router|sgl-model-gateway|sglang::router|"
    r"launch_server|launch_router|vllm\.entrypoints|mini_lb"
)
_INTERPRETER = re.compile(r"(?:.*/)?(?:python[0-9.]*|torchrun|uv|uvx|sglang-router|sgl-router|sgl-model-gateway)\Z")
_SERVING = re.compile(r"(?:.*/)?(?:sglang|vllm)\Z")
_WRAPPER_NAMES = (
    "numactl taskset nohup env setsid nice ionice chrt stdbuf time timeout sudo exec mpirun srun setpriv doas prlimit "
    "unshare nsenter chroot systemd-run xargs find"
)
WRAPPERS = frozenset(_WRAPPER_NAMES.split())
_QUOTES = re.compile(r"\\\n|[\\'\"]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ENV_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
# An engine whose output the script takes: nobody does that, and it would not be found as a command.
INSIDE = re.compile(
    r"(?:\$\(|`|[<>]\()\s*(?:\w+=\S*\s+|(?:exec|nohup|env|numactl|setsid)\s+|-\S+\s+)*"
    r"[^\s)`]*(?:python[0-9.]*|torchrun|uv)[\\'\"]*\s+[^)`]*(?:sglang\.launch_server|sglang_router|vllm\.entrypoints)"
)
# Commands that surely start no engine; any other may, in a script where none is recognized.
HELPERS = frozenset(
    ["[", "awk", "basename", "cat", "chmod", "chown", "conda", "cp", "curl", "cut", "date", "dirname", "echo", "false",
     "git", "grep", "hash", "head", "hostname", "id", "install", "ip", "kill", "ln", "ls", "mkdir", "module", "mv",
     "nvidia-smi", "pip", "pip3", "pkill", "popd", "printenv", "printf", "ps", "pushd", "pwd", "ray", "rm", "sed",
     "sleep", "sort", "sysctl", "tail", "tee", "test", "touch", "tr", "true", "type", "ulimit", "umask", "uname",
     "which", "xargs", "cd", ":", "jobs", "disown", "bg", "fg", "times", "builtin", "command", "dirs", "logger"]
)  # fmt: skip


class Environment(NamedTuple):
    """What an ``env`` in front of the engine does."""

    assigns: list[Word]
    unsets: list[str]
    clears: bool
    unclear: Optional[Word]


def bare(raw: str) -> str:
    """A word without its quotes and backslashes: near enough to know a program by."""
    return _QUOTES.sub("", raw)


def base_name(raw: str) -> str:
    return bare(raw).rsplit("/", 1)[-1]


def is_program(raw: str) -> bool:
    """Whether a word is the program of an engine, or the interpreter of one."""
    name = base_name(raw)
    return _INTERPRETER.match(name) is not None or _SERVING.match(name) is not None


def names_engine(text: str) -> bool:
    """Whether a text names an engine at all."""
    return _ENGINE.search(text) is not None


def engine_words(raws: list[str]) -> bool:
    """Whether a command's words start an engine or a router (not: mention one)."""
    first = base_name(raws[0])
    if bare(raws[0])[:1] in ("$", "`"):  # "$PYTHON" -m sglang.launch_server, $NUMACTL python -m ...
        if len(raws) > 1 and engine_words(raws[1:]):
            return True
        return "-m" in raws[1:3] and any(_ENGINE.search(bare(argument)) for argument in raws[2:8])
    if not (first in WRAPPERS or _INTERPRETER.match(first) or _SERVING.match(first)):
        return False
    for index, raw in enumerate(raws):
        word = bare(raw)
        if _SERVING.match(word) and "serve" in map(bare, raws[index + 1 :]):
            return True
        if _INTERPRETER.match(word):
            rest = raws[index:]
            return "-c" not in rest[:4] and any(_ENGINE.search(bare(argument)) for argument in rest[:8])
    return False


def exec_words(words: list[Word]) -> tuple[list[Word], bool]:
    """The command of an ``exec`` without its options, and whether the environment is cleared (``-c``)."""
    clears = False
    index = 0
    while index < len(words):
        raw = words[index].raw
        if raw == "--":
            return words[index + 1 :], clears
        if not re.match(r"-[cla]+\Z", raw):
            break
        clears = clears or "c" in raw
        index += 2 if raw.endswith("a") else 1
    return words[index:], clears


def environment_words(words: list[Word]) -> Optional[Environment]:
    """The ``env`` in front of the engine, also behind numactl and the like; None when there is none."""
    index = 0
    while index < len(words):
        name = base_name(words[index].raw)
        if name == "env":
            break
        if _INTERPRETER.match(name) or _SERVING.match(name) or (index == 0 and name not in WRAPPERS):
            return None
        index += 1
    if index >= len(words):
        return None
    assigns: list[Word] = []
    unsets: list[str] = []
    clears = False
    index += 1
    while index < len(words):
        word = words[index]
        raw = word.raw
        if _ENV_ASSIGNMENT.match(bare(raw)):
            assigns.append(word)
        elif assigns:
            break
        elif raw in ("-", "-i", "--ignore-environment"):
            clears = True
        elif raw in ("-u", "--unset") and index + 1 < len(words) and _NAME.match(words[index + 1].raw):
            index += 1
            unsets.append(words[index].raw)
        elif raw.startswith("--unset=") and _NAME.match(raw[8:]):
            unsets.append(raw[8:])
        elif raw.startswith("-u") and _NAME.match(raw[2:]):
            unsets.append(raw[2:])
        elif raw in ("-C", "--chdir"):
            index += 1
        elif raw == "--":
            pass
        elif raw.startswith("-") or "=" in raw.split("/")[0] or raw.startswith(("$", '"$')):
            return Environment(assigns, unsets, clears, word)
        else:
            break
        index += 1
    return Environment(assigns, unsets, clears, None)
