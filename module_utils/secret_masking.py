# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Texts in which the values of names that hold secrets are masked.

The masking looks at the text alone, not at a parse of it: it must also hold for
broken scripts, for diffs, for single lines and for log tails. It takes time in
proportion to the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Optional

from .secret_names import is_secret
from .secret_shapes import shaped_values
from .secret_unnamed import unnamed_values
from .secret_values import Span, Values

__all__ = ["MASK", "is_secret", "mask_env", "mask_text", "mask_value"]

MASK = "********"

# A repeated secret is masked everywhere in the text, but only when it is long enough
# not to be an ordinary word or number.
_SHORTEST_REPEATED = 6
# Nobody repeats a longer one, but a key's single lines may stand elsewhere.
_LONGEST_REPEATED = 1024
_LONG_LINE = 16

_WORD = re.compile(r"(?P<param>\$\{[!#]?[A-Za-z_][A-Za-z0-9_]*)|[A-Za-z0-9_][A-Za-z0-9_-]*")
# What stands between a name and its value.
_BEHIND = re.compile(
    r"(?:\[[^\]\n]{0,80}\])?(?P<shut>\\*[\"']?\]?)(?:"
    r"(?P<tight>\+?=)(?=[^\s=>])"
    r"|(?P<equal>[ \t]*(?:[:?!|+]=|=[>=]?=?)[ \t]*|%3[aAdD])"
    r"|(?P<tag>>)(?=[^\s<>])"
    r"|(?P<colon>[ \t]*:(?!:|//)[ \t]*)"
    r"|(?P<apart>(?:[ \t]|\\\r?\n)*(?:,\s*|(?:[ \t]|\\\r?\n)|\r?\n[+ -]?[ \t]*-[ \t]+)(?:[ \t]|\\\r?\n)*)"
    r")"
)
_PARAM = re.compile(r"(?:\[[^\]\n]{0,80}\])?:?[-=]")
_SCHEME = re.compile(r"(?:bearer|basic|token|digest)[ \t]+", re.IGNORECASE)
# Names that programs use for much else; of what stands behind them, words are not looked for elsewhere.
_COMMON = frozenset(["key", "token", "secret", "password", "credentials"])
_WORDLIKE = re.compile(r"[A-Za-z_.-]+")
_PLACEHOLDER = re.compile(r"<[A-Za-z ]*>")
_BLOCK = re.compile(r"[|>][+-]?[0-9]?[ \t]*(?:#[^\n]*)?\r?\n|(?=\r?\n[+ -]?[ \t]*-[ \t]+[^\s:]+[ \t]*(?:\r?\n|\Z))")
_COUNT = re.compile(r"[0-9]+(?:\.[0-9]+)?(?=[,;\s]|\Z)")
_OPAQUE = re.compile(r"[A-Za-z0-9._~+/=-]{6}")
# What may stand before a name, looked for in the few characters before it.
_SIGNS = (":", "=")
_LISTED = re.compile(r"-[ \t]+\\*[\"']?--?\Z")
_LEAD = re.compile(r"(?:[(\[:=]|-v|env)[\s\\\"'A-Za-z]{0,6}\Z", re.IGNORECASE)  # cheaper than the four below
_NAMED = re.compile(r"\b(?:name|key|var|variable)\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?\Z", re.IGNORECASE)
_PAIRED = re.compile(r"(?P<open>[(\[])\s*(?:[A-Za-z]{0,2}\\*[\"'])\Z")
_COMMAND = re.compile(r"\b(?:(?P<printf>printf[ \t]+-v)|setenv|(?-i:ENV))[ \t]+[\"']?\Z", re.IGNORECASE)
_ITEM = re.compile(r"\n[+ -]?[ \t]*-[ \t]")
_SHUT = re.compile(r"\\*[\"']?")
_VALUE = re.compile(r"\\*[\"']?\bvalue\\*[\"']?\s*[:=]\s*", re.IGNORECASE)
_TO_VALUE = re.compile(
    r"\\*[\"']?(?:(?!\b(?:name|key|var|variable)\b)[^{}\[\]]){0,160}?\bvalue\\*[\"']?\s*[:=]\s*", re.IGNORECASE
)
_PAIR_ENDS = re.compile(r"\\*[\"']?[A-Za-z0-9_.-]*\\*[\"']?\s*\]")

_COLOR = re.compile(
    r"(?:\x1b|\\(?:e|033|x1[bB]|u001[bB])|\^\[|#033)\[[0-9;?]*[ -/]*[A-Za-z]|\x1b\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]"
)


def mask_text(text: str) -> str:
    """The text for people: every secret's value is replaced by ``********``, all else is the same.

    Values are found behind names for which :func:`is_secret` holds: in exports of every state (also
    commented-out ones), assignments of shells and programs, ``${NAME:-X}``, ``--api-key X`` and ``--api-key=X`` style
    options, pairs as in JSON and YAML, also ``name: X_TOKEN`` with its ``value:``, behind ``Authorization:`` and
    ``Bearer``, and as the password in a URL; bare or in any quotes, which stay, and a quote that is never closed ends
    with its line. A value that only names a variable (``$HF_TOKEN``) stays, since it tells nothing. A value of six or
    more characters is masked wherever else it stands in the text, and so is what has the form of a well-known
    provider's key. Colors of terminals within a name or a value hide nothing.
    """
    plain, raw_at = _without_colors(text)
    spans, values = _found(plain)
    spans += _repeated(plain, values)
    spans += shaped_values(plain)
    out: list[str] = []
    last = 0
    for start, end in _merged(spans):
        begin, stop = raw_at(start), raw_at(end - 1) + 1
        out += [text[last:begin], _masked(text[begin:stop])]
        last = stop
    return "".join([*out, text[last:]])


def mask_env(env: Mapping[str, str]) -> dict[str, str]:
    """The same mapping with the values of secret names masked."""
    return {name: MASK if is_secret(name) else value for name, value in env.items()}


def mask_value(name: str, value: Optional[str]) -> Optional[str]:
    """The value of a knob, for people: that of a secret's name is masked whole, else what :func:`mask_text` finds in it."""
    if value is None:
        return None
    return MASK if is_secret(name) else mask_text(value)


def _masked(value: str) -> str:
    """Line ends stay, so that line numbers of a masked text are those of the file."""
    return re.sub(r"[^\r\n]+", MASK, value)


def _merged(spans: list[Span]) -> Iterator[Span]:
    """In order, those that overlap as one."""
    start = end = 0
    for one in sorted(spans):
        if one[0] >= one[1]:
            continue
        if one[0] < end:
            end = max(end, one[1])
            continue
        if end:
            yield start, end
        start, end = one
    if end:
        yield start, end


class _Places:
    """Goes through one text and gathers where values are."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.values = Values(text)
        self.groups: list[list[Span]] = []
        self.weak: list[Span] = []
        self.past = 0

    def take(self, found: list[Span], past: int, weak: bool = False) -> None:
        """Take a value. A ``weak`` one, behind a name that is a common word, may be a word of a program, too."""
        self.past = max(self.past, past, found[-1][1] if found else 0)
        if weak and len(found) == 1 and _WORDLIKE.fullmatch(self.text, *found[0]):
            self.weak += found
        elif len(found) == 1 and (
            self.text[found[0][1] : found[0][1] + 1] in ("(", "[") or _PLACEHOLDER.fullmatch(self.text, *found[0])
        ):
            self.weak += found  # api_key = read(...), "api_key": "<redacted>"
        elif found:
            self.groups.append(found)

    def word(self, name: str, start: int, end: int) -> None:
        """A name that holds a secret stands at ``start``."""
        text = self.text
        behind = _BEHIND.match(text, end)
        kind = behind.lastgroup if behind else None
        if behind is None or kind == "apart":
            lead = text[max(0, start - 48) : start]
            if lead.rstrip(" \t\\\"'")[-1:] in _SIGNS and _NAMED.search(lead):
                self._named(start, end)
            elif behind is not None:
                self._apart(name, start, behind, lead)
            return
        shut, at = behind.group("shut"), behind.end()
        if kind == "tag":
            if text[start - 1 : start] == "<":  # <password>X</password>
                self.take(self.values.read(at, start, in_data=True), at)
            return
        if kind == "colon":
            self._pair(name, start, at, shut)
            return
        sign = behind.group("equal") or ""
        if sign[:1] == "=" and sign[1:].isspace() and text[at : at + 1] not in ("'", '"', "\\"):
            return  # HF_TOKEN= python x
        if text[at : at + 1] == "(":
            self.take(self.values.array(at + 1), at)
        else:
            self.take(self._credentials(at, start, shut), at, name in _COMMON)

    def _credentials(self, at: int, start: int, shut: str, in_data: bool = False, whole: bool = False) -> list[Span]:
        """A value without the word Bearer or its like."""
        text = self.text
        scheme = _SCHEME.match(text, at)
        if scheme:
            return self.values.read(scheme.end(), start, shut, in_data, whole)
        found = self.values.read(at, start, shut, in_data, whole)
        if found:
            first = _SCHEME.match(text, found[0][0], found[0][1])
            if first:
                found[0] = (first.end(), found[0][1])
        return found

    def _pair(self, name: str, start: int, at: int, shut: str) -> None:
        text = self.text
        before = text[start - 1 : start]
        if before in ("$", "/", "@") and text[at - 1 : at] == ":":
            return  # $KEY:/usr/bin, my/secret:latest
        if before == "#" and _COUNT.match(text, at):
            return  # #cached-token: 0, as the engine logs it
        block = _BLOCK.match(text, at)
        if block:
            self.take(self.values.block(at), block.end())
            return
        if shut and text[at : at + 1] in ("\n", "\r"):
            at = _past_blanks(text, at)
        word = _WORD.match(text, at + (text[at : at + 1] in ("'", '"')))
        if name.lower() == "key" and word and is_secret(word.group()):
            self.past = max(self.past, at)
            return  # key: HF_TOKEN, with its value elsewhere
        if text[at : at + 1] == "[":
            self.take(self.values.array(at + 1, "]"), at)
            return
        if text[at : at + 1] == "{":
            inner = _TO_VALUE.match(text, at + 1)
            if inner:
                self.take(self.values.read(inner.end(), start, shut, in_data=True), at)
            return
        whole = "authorization" in name.lower() or ("-" in name and not shut)
        self.take(self._credentials(at, start, shut, True, whole), at, name in _COMMON)

    def _apart(self, name: str, start: int, behind: re.Match[str], lead: str) -> None:
        """Blanks, commas or a list's next item stand behind the name; ``lead`` is what stands before it."""
        text = self.text
        at, shut, sign = behind.end(), behind.group("shut"), behind.group("apart")
        if name.lower() == "bearer" and "," not in sign and not shut:
            if _OPAQUE.match(text, at):
                self.take(self.values.read(at, start, in_data=True), at)
            return
        if lead[-1:] == "-":
            if text.startswith("--", at) or (lead[-2:-1] in ("", "\n")):
                return  # the next option; or a line of a difference
            if "\n" in sign and sign.rstrip(" \t").endswith("-") and not _LISTED.search(lead):
                return
            self.take(self.values.read(at, start, shut, in_data=bool(shut) and "," in sign), at)
            return
        if not _LEAD.search(lead):
            return
        command = _COMMAND.search(lead)
        if command and command.group("printf"):
            self.take(self.values.words(at, self.values.quotes.at(start)), at)
            return
        if command:
            self.take(self.values.read(at, start, shut), at)
            return
        paired = _PAIRED.search(lead)
        if (
            paired
            and shut
            and "," in sign
            and text[at : at + 2].lstrip("\\")[:1] in ("'", '"')
            and (paired.group("open") == "(" or _PAIR_ENDS.match(text, at))
        ):
            self.take(self.values.read(at, start, shut, in_data=True), at, weak=True)

    def _named(self, start: int, end: int) -> None:
        """``name: HF_TOKEN``, the ``value:`` of which stands behind or before it."""
        text = self.text
        value = _TO_VALUE.match(text, end)
        if value:
            shut = _SHUT.match(text, end)
            self.take(self.values.read(value.end(), start, shut.group() if shut else "", in_data=True), value.end())
            return
        begin = max(self.past, start - 200, text.rfind("{", max(0, start - 200), start))
        befores = list(_VALUE.finditer(text, begin, start))
        if befores and not _ITEM.search(text, befores[-1].end(), start):
            # Its quotes are judged by themselves: what is open at the name was opened behind this value.
            at = befores[-1].end()
            found = Values(text[at:start]).read(0, 0, in_data=True)
            self.take([(at + begin, at + stop) for begin, stop in found], end)

    def param(self, start: int, end: int) -> None:
        """``${NAME`` stands there."""
        how = _PARAM.match(self.text, end)
        if how:
            self.take(self.values.param(how.end()), how.end())


def _past_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\r", "\n"):
        at += 1
    return at


def _found(text: str) -> tuple[list[Span], set[str]]:
    """Where values are, and which they are."""
    places = _Places(text)
    for word in _WORD.finditer(text):
        start, end = word.span()
        if start < places.past:
            continue
        if word.lastgroup:
            name = word.group().lstrip("${!#")
            if is_secret(name):
                places.param(start, end)
            continue
        name = word.group()
        # "\\nHF_TOKEN=X" within a text: the n belongs to the line end
        behind_escape = name[0] in "nrt" and text[start - 1 : start] == "\\"
        if not is_secret(name) and not (behind_escape and is_secret(name[1:])):
            continue
        places.word(name, start, end)
    spans = places.weak + [span for group in places.groups for span in group]
    others = list(unnamed_values(text))
    return spans + others, _values(text, [*places.groups, *([span] for span in others)])


def _values(text: str, groups: Iterable[list[Span]]) -> set[str]:
    values: set[str] = set()
    for group in groups:
        for start, end in group:
            value = text[start:end]
            values.add(value)
            if "\n" in value:
                values.update(line for line in value.split("\n") if len(line) >= _LONG_LINE and " " not in line)
            if "\\" in value:
                values.add(_UNESCAPED.sub(r"\1", value))
                values.update(_LINE_ENDS.split(value))
            if "}" in value:
                values.update(_DEFAULT.findall(value))
        if len(group) > 1:
            values.add("".join(text[start:end] for start, end in group))
    return {value for value in values if _SHORTEST_REPEATED <= len(value) <= _LONGEST_REPEATED and value.strip("* \n")}


_DEFAULT = re.compile(r":?[-=+]['\"]?([^'\"{}$]+)['\"]?\}")
_UNESCAPED = re.compile(r"\\(.)")
_LINE_ENDS = re.compile(r"\\[nrt]")


def _repeated(text: str, values: set[str]) -> list[Span]:
    """Where any of ``values`` stands; the longest at each place."""
    lengths: dict[str, list[int]] = {}
    for value in values:
        lengths.setdefault(value[:_SHORTEST_REPEATED], []).append(len(value))
    if not lengths:
        return []
    for known in lengths.values():
        known[:] = sorted(set(known), reverse=True)
    size = _SHORTEST_REPEATED
    heres = [at for at in range(len(text) - size + 1) if text[at : at + size] in lengths]
    spans = []
    for at in heres:
        for length in lengths[text[at : at + size]]:
            if text[at : at + length] in values:
                spans.append((at, at + length))
                break
    return spans


class _Colors:
    """Places in a text without its colors, as places in the text with them."""

    def __init__(self, starts: list[int], shifts: list[int]) -> None:
        self.starts, self.shifts = starts, shifts

    def __call__(self, at: int) -> int:
        return at + self.shifts[bisect_right(self.starts, at) - 1]


def _without_colors(text: str) -> tuple[str, _Colors]:
    pieces: list[str] = []
    starts, shifts = [0], [0]
    last = length = 0
    for found in _COLOR.finditer(text):
        pieces.append(text[last : found.start()])
        length += found.start() - last
        last = found.end()
        starts.append(length)
        shifts.append(last - length)
    return "".join([*pieces, text[last:]]), _Colors(starts, shifts)
