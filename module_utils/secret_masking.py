# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which names hold secrets, and texts in which the values of such names are masked.

The masking looks at the text alone, not at a parse of it: it must also hold for
broken scripts, for diffs, for single lines and for log tails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
# Where a secret's value may begin: NAME=, --option= / --option VALUE, "name": VALUE, Authorization: Bearer VALUE.
_PLACE = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    rf"(?P<assign>{_NAME})\+?="
    r"|(?P<option>--?[A-Za-z][A-Za-z0-9_-]*)[\"']?(?:=|(?:,|[ \t]|\\\r?\n)+)"
    rf"|(?P<key>[A-Za-z_][A-Za-z0-9_-]*)[\"']?[ \t]*:[ \t]+"
    r")"
    r"|(?P<bearer>\b[Bb]earer[ \t]+)"
)
_REFERENCE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9@*#])")
_BARE = re.compile(r"[^\s\\'\"$`;&|<>()]+")


def mask_text(text: str) -> str:
    """The text for people: every secret's value is replaced by ``********``, all else is the same.

    Values are found behind names for which :func:`is_secret` holds: in exports of every state (also
    commented-out ones), assignments in front of a command, ``--api-key X`` and ``--api-key=X`` style
    options, ``"api_key": "X"`` pairs, and behind ``Authorization: Bearer``. Quotes around the value stay.
    A value that only names a variable (``$HF_TOKEN``) stays, since it tells nothing. A value of six or
    more characters is masked wherever else it stands in the text.
    """
    spans: list[tuple[int, int]] = []
    values: set[str] = set()
    position = 0
    while True:
        place = _PLACE.search(text, position)
        if place is None:
            break
        name = place.group("assign") or (place.group("option") or "").lstrip("-") or place.group("key")
        if place.group("bearer") is None and not is_secret(name or ""):
            # Not past the whole match: the value of a harmless option may itself be a place.
            position = place.start() + max(1, len(name or ""))
            continue
        found = _value_spans(text, place.start(), place.end())
        position = max(place.end(), found[-1][1] if found else 0)
        spans += found
        values.update(text[start:end] for start, end in found)
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
    return masked


def mask_env(env: Mapping[str, str]) -> dict[str, str]:
    """The same mapping with the values of secret names masked."""
    return {name: MASK if is_secret(name) else value for name, value in env.items()}


def _masked(value: str) -> str:
    """Line ends stay, so that line numbers of a masked text are those of the file."""
    return re.sub(r"[^\r\n]+", MASK, value)


def _value_spans(text: str, name_start: int, start: int) -> list[tuple[int, int]]:
    """Where the characters of the value at ``start`` are, without quotes around them."""
    opener = _open_quote(text, name_start)
    if opener:
        # NAME=value inside a longer quoted string: if the quote opens directly before the name, all of it.
        whole = text[name_start - 1] == opener
        end = start
        inner = ""
        while end < len(text) and text[end] not in "\n":
            char = text[end]
            if char == "\\" and opener == '"' and text[end + 1 : end + 2] not in ("", "\n"):
                if text[end + 1] == '"':
                    if inner:
                        end += 2
                        break
                    inner = '"'
                end += 2
                continue
            if char == opener:
                break
            if char in "'\"":
                inner = "" if inner == char else (inner or char)
            elif not inner and not whole and char in " \t;&|":
                break
            end += 1
        return _kept(text, start, end)
    spans: list[tuple[int, int]] = []
    at = start
    while at < len(text):
        char = text[at]
        if char in "'\"":
            closing = _closing(text, at)
            if closing is None or (at > start and "\n" in text[at:closing]):
                # a quote that was opened on an earlier line ends here
                break
            spans += _kept(text, at + 1, closing)
            at = closing + 1
        elif char == "\\" and at + 1 < len(text):
            if text[at + 1] == "\n":
                at += 2
                continue
            spans.append((at, at + 2))
            at += 2
        elif char == "$" and text[at + 1 : at + 2] in ("'", '"'):
            at += 1
        elif char in "$`":
            end = _expansion_end(text, at)
            spans += _kept(text, at, end)
            at = end
        else:
            bare = _BARE.match(text, at)
            if bare is None:
                break
            end = bare.end()
            # in JSON and lists the comma and the bracket are not the value's
            spans.append((at, end))
            at = end
    return _joined(spans)


def _kept(text: str, start: int, end: int) -> list[tuple[int, int]]:
    if start >= end or _REFERENCE.fullmatch(text, start, end):
        return []
    return [(start, end)]


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


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


def _closing(text: str, at: int) -> Optional[int]:
    quote = text[at]
    position = at + 1
    while position < len(text):
        if text[position] == quote:
            return position
        position += 2 if text[position] == "\\" and (quote == '"' or text[at - 1 : at] == "$") else 1
    return None


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
