# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Unit files and drop-ins: lines, words in quotes, specifiers (systemd.syntax(7), systemd.unit(5); tried on 252 and 257)."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

_BLANKS = " \t\n\r"
_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34, "'": 39, "s": 32}
_NUMBERS = ((re.compile(r"x([0-9a-fA-F]{2})"), 16), (re.compile(r"([0-7]{3})"), 8))
_UNICODE = re.compile(r"u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})")


@dataclass(frozen=True)
class Setting:
    """``key=value`` of the [Service] section. The value is Latin-1 text of the file's bytes, continued lines joined."""

    key: str
    value: str
    starts: Tuple[Tuple[int, int], ...]  # offset in the value, line from there on

    def line_at(self, offset: int) -> int:
        return self.starts[max(0, bisect_right([start for start, _line in self.starts], offset) - 1)][1]


def read_unit_file(data: bytes) -> List[Setting]:
    """The settings of [Service], in order. Never raises: what systemd passes over is passed over."""
    settings: List[Setting] = []
    section = ""
    joined, starts = "", []  # type: Tuple[str, List[Tuple[int, int]]]
    for number, line in enumerate(re.split(r"\r?\n|\r", data.decode("latin-1").lstrip("\xef\xbb\xbf")), 1):
        bare = line.lstrip(_BLANKS)
        if bare[:1] in ("#", ";") or (not bare and not joined):
            continue  # comments are passed over even between continued lines
        line = line if joined else bare
        starts.append((len(joined), number))
        joined += line
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1] + " "
            continue
        text, begun = joined, starts
        joined, starts = "", []
        header = re.match(r"\[([^\]]*)\]\s*\Z", text)
        if header:
            section = header.group(1)
        elif section == "Service" and "=" in text:
            key, _equals, value = text.partition("=")
            cut = len(key) + 1 + len(value) - len(value.lstrip(_BLANKS))
            places = tuple((max(0, start - cut), line_number) for start, line_number in begun)
            settings.append(Setting(key.strip(_BLANKS), value.strip(_BLANKS), places))
    return settings


def words(text: str, plain: str = "") -> Tuple[List[Tuple[int, str]], bool]:
    """Words with the offsets at which they begin, unquoted, escapes resolved; and whether all of it was understood.

    Words before one that is not understood count for systemd, the rest of the setting does not.
    """
    found: List[Tuple[int, str]] = []
    at = 0
    while True:
        while at < len(text) and text[at] in _BLANKS:
            at += 1
        if at >= len(text):
            return found, True
        start, quote, word = at, "", ""
        while at < len(text) and (quote or text[at] not in _BLANKS):
            char = text[at]
            at += 1
            if char == "\\":
                piece, size = (text[at], 1) if text[at : at + 1] in tuple(plain) else _escape(text, at)
                if not size:
                    return found, False
                word += piece
                at += size
            elif char == quote:
                quote = ""
            elif not quote and char in "\"'":
                quote = char
            else:
                word += char
        if quote:
            return found, False
        found.append((start, word))


def _escape(text: str, at: int) -> Tuple[str, int]:
    """What stands for the escape at the offset behind its backslash, and its length; 0 when there is none of the kind."""
    simple = _SIMPLE.get(text[at : at + 1])
    if simple is not None:
        return chr(simple), 1
    for pattern, base in _NUMBERS:
        match = pattern.match(text, at)
        if match:
            code = int(match.group(1), base)
            return (chr(code), match.end() - at) if 0 < code < 256 else ("", 0)
    match = _UNICODE.match(text, at)
    if match:
        code = int(match.group(1) or match.group(2), 16)
        if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000:
            return chr(code).encode().decode("latin-1"), match.end() - at
    return "", 0


def shown_words(text: str) -> List[str]:
    """A list as ``systemctl show`` prints it: words in double quotes where needed, ``$`` and backquotes escaped too.

    :arg text: the bytes as Latin-1
    """
    found, whole = words(text, plain="$`")
    return [decoded(word) for _start, word in found] if whole else []


def decoded(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "surrogateescape")


def unescaped(name: str) -> str:
    """A unit's name part as systemd-escape --unescape gives it."""
    text = name.encode("utf-8", "surrogateescape").decode("latin-1").replace("-", "/")
    return decoded(re.sub(r"\\x([0-9a-fA-F]{2})", lambda match: chr(int(match.group(1), 16)), text))


class Specifiers:
    """``%n`` and others of one system unit. What is not known here is not guessed: systemd is asked for its reading."""

    def __init__(self, unit: str, fragment: str = "") -> None:
        stem = unit.rpartition(".")[0] or unit
        prefix, at, instance = stem.partition("@")
        last = prefix.rpartition("-")[2]
        self._known: Dict[str, str] = {
            "n": unit if "." in unit else unit + ".service",
            "N": stem,
            "p": prefix,
            "P": unescaped(prefix),
            "i": instance,
            "I": unescaped(instance),
            "j": last,
            "J": unescaped(last),
            "f": "/" + unescaped(instance if at else prefix),
            "H": os.uname().nodename,
            "h": "/root",
            "u": "root",
            "U": "0",
            "g": "root",
            "G": "0",
            "t": "/run",
            "S": "/var/lib",
            "C": "/var/cache",
            "L": "/var/log",
            "E": "/etc",
            "y": fragment,
            "Y": os.path.dirname(fragment),
            "%": "%",
        }

    def resolved(self, text: str) -> Optional[str]:
        """None when a specifier's value is not known here."""
        pieces, at = "", 0
        for match in re.finditer(r"%(.)", text, re.DOTALL):
            if match.start() < at:
                continue
            if match.group(1) not in self._known:
                if match.group(1).isalpha():
                    return None
                continue
            pieces += text[at : match.start()] + self._known[match.group(1)]
            at = match.end()
        return pieces + text[at:]
