# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which names hold secrets, and texts in which the values of such names are masked.

The masking looks at the text alone, not at a parse of it: it must also hold for
broken scripts, for diffs, for single lines and for log tails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Optional

MASK = "********"

# A repeated secret is masked everywhere in the text, but only when it is long enough
# not to be an ordinary word or number.
_SHORTEST_REPEATED = 6

_TELLING_TEXT = (
    "PASSWORD PASSWD PASSPHRASE PASSWORDS SECRET SECRETS CREDENTIAL CREDENTIALS APIKEY APIKEYS "
    "AUTHORIZATION BEARER PRIVATEKEY"
)
# The name of a place or of a switch about the secret, not the secret.
_ABOUT_TEXT = (
    "FILE PATH DIR FOLDER NAME ENV ENABLED ENABLE REQUIRED TYPE HEADER URL TTL LENGTH LEN COUNT TIMEOUT "
    "HELPER PROVIDER STORE BACKEND EXPIRY"
)
# X_KEY that is no secret: keys of tables and graphs. SGLANG_LOG_DECODE_GRAPH_KEY is the registry's one.
_PLAIN_KEYS_TEXT = (
    "GRAPH CACHE SORT HASH PRIMARY FOREIGN PARTITION PUBLIC GROUP ROUTING LOOKUP INDEX MAP DICT LABEL HOT"
)
# X_TOKEN that counts or names tokens of text, as in SGLANG_USE_AITER_FP8_PER_TOKEN.
_PLAIN_TOKENS_TEXT = (
    "PER TO NEXT NEW MAX MIN NUM EOS BOS PAD SEP UNK CLS MASK STOP END START THINK IMAGE VIDEO AUDIO SPECIAL "
    "FIRST LAST EACH EVERY BY IN OUT INPUT OUTPUT PROMPT DRAFT SINGLE MULTI"
)

_TELLING = frozenset(_TELLING_TEXT.split())
_ABOUT = frozenset(_ABOUT_TEXT.split())
_PLAIN_KEYS = frozenset(_PLAIN_KEYS_TEXT.split())
_PLAIN_TOKENS = frozenset(_PLAIN_TOKENS_TEXT.split())


@lru_cache(maxsize=8192)  # a script names the same few hundred names again and again
def is_secret(name: str) -> bool:
    """Whether the value of a name must never be shown: judged by the name alone.

    Of the 770 names of the SGLang registry (0.5.23) exactly one is a secret, EXA_API_KEY;
    the unit test holds that list. Names with ``-`` (options) count like ``_``.
    """
    parts = [part for part in re.split(r"[_\-.]+", name.upper()) if part]
    while len(parts) > 1 and parts[-1].isdigit():
        parts.pop()
    if not parts or parts[-1] in _ABOUT:
        return False
    if any(part in _TELLING for part in parts):
        return True
    last = parts[-1]
    before = parts[-2] if len(parts) > 1 else ""
    if last in ("PWD", "PASS"):
        return before not in ("", "OLD", "NUM", "MULTI", "SINGLE", "PER", "EACH")
    if last == "TOKEN":
        return before not in _PLAIN_TOKENS
    if last == "TOKENS":
        return before in ("API", "AUTH", "ACCESS", "BEARER", "REFRESH")
    if "API" in parts and any(part in ("KEY", "KEYS") for part in parts[parts.index("API") + 1 :][:1]):
        return True
    if last == "KEY":
        return before not in _PLAIN_KEYS
    return parts[-3:] == ["ACCESS", "KEY", "ID"] or (last == "KEYS" and before in ("ACCESS", "PRIVATE"))


_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
# Where a secret's value may begin. A quote that encloses just the name may stand behind it.
_PLACE = re.compile(
    r"(?P<url>://[^\s/:@'\"]+:)(?=[^\s/@'\"]+@)"
    r"|(?P<header>\bauthorization\\?[\"']?[ \t]*:[ \t]*(?:\\?[\"'])?(?:(?:bearer|basic|token)[ \t]+)?)"
    r"|(?P<bearer>\bbearer[ \t]+)(?=[A-Za-z0-9._~+/=-]{6})"
    r"|(?<![A-Za-z0-9_-])(?:"
    rf"(?P<assign>{_NAME})(?P<assigned>[\"']?\+?=)"
    r"|--?(?P<option>[A-Za-z][A-Za-z0-9_-]*)(?:\\?[\"'])?(?:=|(?:,|[ \t]|\\\r?\n)+)(?!--)"
    r"|(?P<key>[A-Za-z_][A-Za-z0-9_-]*)(?:\\?[\"'])?[ \t]*:[ \t]+"
    r")",
    re.IGNORECASE,
)
# Keys that are known by their form, whatever stands before them: Hugging Face, OpenAI and its like, GitHub, GitLab,
# AWS, Slack. The names of models and files that begin so are shorter, or have other characters in them.
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9_-])(?:hf_[A-Za-z0-9]{16,}|sk-(?:proj-|ant-)?[A-Za-z0-9_]{20,}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|AKIA[A-Z0-9]{16}|xox[abprs]-[A-Za-z0-9-]{16,})"
    r"(?![A-Za-z0-9_])"
)
_REFERENCE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9@*#])")
_BARE = re.compile(r"[^\s\\'\"$`;&|<>(),}\]]+")
_ENDS = " \t\r\n;&|<>()"


def mask_text(text: str) -> str:
    """The text for people: every secret's value is replaced by ``********``, all else is the same.

    Values are found behind names for which :func:`is_secret` holds: in exports of every state (also
    commented-out ones), assignments in front of a command, ``--api-key X`` and ``--api-key=X`` style
    options, ``"api_key": "X"`` pairs, behind ``Authorization:`` and ``Bearer``, and as the password in a URL;
    bare or in any quotes, which stay. A value that only names a variable (``$HF_TOKEN``) stays, since it tells
    nothing. A value of six or more characters is masked wherever else it stands in the text, and so is what has the
    form of a well-known provider's key.
    """
    spans: list[tuple[int, int]] = []
    values: set[str] = set()
    position = 0
    while True:
        place = _PLACE.search(text, position)
        if place is None:
            break
        name = place.group("assign") or place.group("option") or place.group("key")
        if name is not None and not is_secret(name):
            # only past the name: what follows may itself be a place
            position = place.start() + max(1, place.group().find(name) + len(name))
            continue
        found = _Value(text, place).spans
        position = max(place.end(), found[-1][1] if found else 0)
        spans += found
        for start, end in found:
            values.update((text[start:end], _UNESCAPED.sub(r"\1", text[start:end])))
            values.update(_DEFAULT.findall(text[start:end]))
        values.add("".join(text[start:end] for start, end in found))
    out: list[str] = []
    last = 0
    for start, end in spans:
        out += [text[last:start], _masked(text[start:end])]
        last = end
    out.append(text[last:])
    masked = "".join(out)
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST_REPEATED and value.strip("*"):
            masked = masked.replace(value, MASK)
    return _SHAPES.sub(MASK, masked)


def mask_env(env: Mapping[str, str]) -> dict[str, str]:
    """The same mapping with the values of secret names masked."""
    return {name: MASK if is_secret(name) else value for name, value in env.items()}


_DEFAULT = re.compile(r":?[-=+]['\"]?([^'\"{}$]+)['\"]?\}")
_UNESCAPED = re.compile(r"\\(.)")


def _masked(value: str) -> str:
    """Line ends stay, so that line numbers of a masked text are those of the file."""
    return re.sub(r"[^\r\n]+", MASK, value)


class _Value:
    """Where the characters of one value are, without the quotes around them."""

    def __init__(self, text: str, place: re.Match[str]) -> None:
        self.text = text
        self.spans: list[tuple[int, int]] = []
        start = place.end()
        if place.group("url"):
            self._keep(start, text.index("@", start))
            return
        # "api_key": in JSON, "--api-key" "x" in an array: what is quoted there is the name alone
        self.in_data = bool(place.group("key") or place.group("header") or place.group("bearer"))
        name_start = place.start()
        self.opener = _open_quote(text, name_start)
        before = text[name_start - 1] if name_start else ""
        behind = text[name_start:start].rstrip(" \t:=,+\\\r\n")[-1:]
        escaped = text[name_start - 2 : name_start - 1] == "\\"
        if before and before in "'\"" and not escaped and behind == before == self.opener:
            self.opener = ""
        self.whole = bool(self.opener) and before == self.opener and not escaped and not self.in_data
        if text[start : start + 1] in ("'", '"'):
            self.whole = False
        if place.group("header"):
            self.whole = bool(self.opener)
        self._read(start)

    def _read(self, start: int) -> None:
        text = self.text
        at = start
        while at < len(text):
            char = text[at]
            if char == self.opener or (self.opener and char == "\n"):
                break
            if char in "'\"":
                closing = self._closing(at)
                if closing is None or ("\n" in text[at:closing] and at > start):
                    break  # a quote that was opened on an earlier line ends here
                self._keep(at + 1, closing)
                at = closing + 1
                if self.in_data:
                    break
            elif char == "\\":
                following = text[at + 1 : at + 2]
                if following == self.opener == '"' and not self.whole:
                    closing = text.find('\\"', at + 2)
                    closing = len(text) if closing < 0 else closing
                    self._keep(at + 2, closing)
                    at = closing + 2
                    if self.in_data:
                        break
                elif following in ("\n", "\r"):
                    at += 2
                else:
                    self._keep(at, at + 2)
                    at += 2
            elif char == "$" and not self.opener and text[at + 1 : at + 2] in ("'", '"'):
                at += 1
            elif char in "$`" and self.opener != "'":
                end = _expansion_end(text, at)
                self._keep(at, end)
                at = end
            elif char in _ENDS or (self.in_data and char in ",}]"):
                if not self.whole:
                    break
                self._keep(at, at + 1)
                at += 1
            else:
                bare = _BARE.match(text, at)
                end = bare.end() if bare else at + 1
                self._keep(at, end)
                at = end

    def _keep(self, start: int, end: int) -> None:
        """Take a piece for the value, unless it only names a variable."""
        if start >= end or _REFERENCE.fullmatch(self.text, start, end):
            return
        if self.spans and self.spans[-1][1] == start:
            self.spans[-1] = (self.spans[-1][0], end)
        else:
            self.spans.append((start, end))

    def _closing(self, at: int) -> Optional[int]:
        """The quote that closes the one at ``at``; None when the line's own quote comes first."""
        text = self.text
        quote = text[at]
        escapes = quote == '"' or text[at - 1 : at] == "$"
        position = at + 1
        while position < len(text):
            char = text[position]
            if char == quote:
                return position
            if char == self.opener:
                return None
            position += 2 if char == "\\" and escapes else 1
        return None


def _open_quote(text: str, at: int) -> str:
    """The quote that is open at a place, judged by its own line alone; '' in a comment or outside."""
    line_start = text.rfind("\n", 0, at) + 1
    quote = ""
    position = line_start
    while position < at:
        char = text[position]
        if char == "\\" and quote != "'":
            position += 2
            continue
        if quote:
            if char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "#" and (position == line_start or text[position - 1] in " \t;"):
            return ""
        position += 1
    return quote


def _expansion_end(text: str, at: int) -> int:
    """The end of ``$NAME``, ``${...}``, ``$(...)`` or backticks, on one line."""
    reference = _REFERENCE.match(text, at)
    if reference:
        return reference.end()
    if text[at] == "`":
        end = text.find("`", at + 1)
        return len(text) if end < 0 else end + 1
    closers = {"{": "}", "(": ")"}
    opener = text[at + 1 : at + 2]
    if opener not in closers:
        return at + 1
    depth = 0
    for position in range(at + 1, len(text)):
        if text[position] == opener:
            depth += 1
        elif text[position] == closers[opener]:
            depth -= 1
            if depth == 0:
                return position + 1
        elif text[position] == "\n":
            return position
    return len(text)
