# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Values of secrets that stand behind no name of a secret: in URLs, as the word of a command, between the lines of a key."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .secret_names import is_secret
from .secret_values import Span, Values

_WORD = re.compile(r"[A-Za-z0-9_]+")
_URL = re.compile(r"://[^\s/:@'\"]*:(?=[^\s/@'\"]+@)")
_HERE = re.compile(r"<<<[ \t]*")
_READ = re.compile(r"\b(?:read|readarray|mapfile)\b([^\n;|&<>]*)\Z")
_SHORT_OPTION = re.compile(
    r"\b(?:sshpass[ \t]+(?:-[veh][ \t]+)*-p[ \t]*|redis-cli\b[^\n;|&]{0,80}?[ \t]-a[ \t]+|mysql\w*\b[^\n;|&]{0,80}?[ \t]-p(?=\S))"
)
_USER = re.compile(
    r"\b(?P<curl>curl|wget|https?)\b(?!:)|(?<!\\)(?P<line>\n)|(?<![\w-])(?:-[A-Za-z]{0,8}u|--(?:proxy-)?user)[ \t\"',=]*[^\s:'\"$,=]*:(?=[^\s'\"])"
)
_CURL = re.compile(r"curl|wget|https? ")
_COMMANDS = ("sshpass", "redis-cli", "mysql")
_PEM = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----")
_PEM_END = re.compile(r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----")


def unnamed_values(text: str) -> Iterator[Span]:
    """Where the values are, in no order."""
    for found in _URL.finditer(text):
        yield found.end(), text.index("@", found.end())
    values = Values(text)
    for found in _HERE.finditer(text) if "<<<" in text else ():
        read = _READ.search(text, max(0, found.start() - 200), found.start())
        if read and any(is_secret(word.group()) for word in _WORD.finditer(read.group(1))):
            yield from values.read(found.end(), found.start())
    values = Values(text)
    for found in _SHORT_OPTION.finditer(text) if any(word in text for word in _COMMANDS) else ():
        yield from values.read(found.end(), found.start())
    values, curl = Values(text), False
    for found in _USER.finditer(text) if _CURL.search(text) else ():
        if found.lastgroup:
            curl = found.lastgroup == "curl"
        elif curl:
            yield from values.read(found.end(), found.end())
    at = 0
    while True:
        begin = _PEM.search(text, at)
        if begin is None:
            return
        end = _PEM_END.search(text, begin.end())
        at = end.start() if end else len(text)
        yield begin.end(), at
