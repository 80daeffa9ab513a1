# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which names hold secrets, judged by the name alone."""

from __future__ import annotations

import re
from functools import lru_cache

# Any of these within a part of a name tells: PGPASSWORD, SECRETKEY, X_CREDENTIALS.
_TELLING = re.compile(
    r"PASSWORD(?!LESS)|(?<!NO)PASSWD|PASSPHRASE|PASSCODE|CREDENTIAL|\bSECRETS?(?!AR|NAME|(?:KEY)?REF|PATH|FILE|TYPE)|SECRETS?\b|\bAUTHORIZATION\b|\bBEARER\b|\bJWT\Z"
    r"|\bCREDS?\b|(?:API|ACCESS|SECRET|PRIVATE|ENCRYPTION|MASTER|SIGNING|ACCOUNT|STORAGE|AUTH|SSH)KEYS?\b"
)
# The name of a place or of a switch about the secret, not the secret.
_ABOUT_TEXT = (
    "FILE PATH DIR FOLDER NAME ENV ENABLED ENABLE REQUIRED TYPE HEADER URL URI TTL LENGTH LEN COUNT TIMEOUT "
    "HELPER PROVIDER STORE BACKEND EXPIRY KEYFILE CERTFILE REF READER"
)
# X_KEY that is no secret: keys of tables and graphs. SGLANG_LOG_DECODE_GRAPH_KEY is the registry's one.
_PLAIN_KEYS_TEXT = (
    "GRAPH CACHE SORT HASH PRIMARY FOREIGN PARTITION PUBLIC GROUP ROUTING LOOKUP INDEX MAP DICT LABEL HOT"
)
# X_TOKEN that counts or names tokens of text, as in SGLANG_USE_AITER_FP8_PER_TOKEN.
_PLAIN_TOKENS_TEXT = (
    "PER TO NEXT NEW MAX MIN NUM EOS BOS PAD SEP UNK CLS MASK STOP END START THINK IMAGE VIDEO AUDIO SPECIAL "
    "FIRST LAST EACH EVERY BY IN OUT INPUT OUTPUT PROMPT DRAFT SINGLE MULTI CACHED SUB TIK"
)
# What may follow the telling part of a name without changing what it holds: HF_TOKEN_PROD, X_TOKEN_VALUE.
_QUALIFIERS_TEXT = (
    "PROD PRODUCTION DEV STAGING STAGE TEST QA LIVE CI VALUE VAL OLD NEW PREV PREVIOUS CURRENT SECONDARY BACKUP "
    "DEFAULT RAW PLAIN B64 BASE64 STRING STR RO RW READ WRITE"
)
_TOKENS_OF_TEXT = (
    "HF API AUTH ACCESS BEARER REFRESH SESSION GITHUB GITLAB SLACK BOT HUB WANDB NGC ADMIN FACE OAUTH VAULT NPM"
)

_ABOUT = frozenset(_ABOUT_TEXT.split())
_PLAIN_KEYS = frozenset(_PLAIN_KEYS_TEXT.split())
_PLAIN_TOKENS = frozenset(_PLAIN_TOKENS_TEXT.split())
_QUALIFIERS = frozenset(_QUALIFIERS_TEXT.split())
_TOKENS_OF = frozenset(_TOKENS_OF_TEXT.split())
_SECRET_KEYS = frozenset(["ACCESS", "PRIVATE", "ENCRYPTION", "SECRET", "SIGNING", "MASTER", "SSH", "AUTH"])
_NO_PASS = frozenset(["", "OLD", "NUM", "MULTI", "SINGLE", "PER", "EACH"])

# Without one of these no name is a secret's; most words of a log fail here.
_HINT = re.compile("key|token|pass|pwd|secret|cred|auth|bearer|jwt|pat|cookie", re.IGNORECASE)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEAM = re.compile(r"[_\-.]+")


@lru_cache(maxsize=8192)  # a script names the same few hundred names again and again
def is_secret(name: str) -> bool:
    """Whether the value of a name must never be shown: judged by the name alone.

    Of the 770 names of the SGLang registry (0.5.23) exactly one is a secret, EXA_API_KEY;
    the unit test holds that list. Names with ``-`` (options) and in camelCase count like ``_``.
    """
    if not _HINT.search(name):
        return False
    parts = [part for part in _SEAM.split(name.upper()) if part]
    return _tells(parts) or (
        # apiKey, but not mixed spellings such as hfTOKENs of which no part would be left whole
        not name.isupper() and _tells([part for part in _SEAM.split(_HUMP.sub("_", name).upper()) if part])
    )


def _tells(parts: list[str]) -> bool:
    while len(parts) > 1 and parts[-1].isdigit():
        parts.pop()
    if not parts or parts[-1] in _ABOUT:
        return False
    parts[-1] = parts[-1].rstrip("0123456789") or parts[-1]
    if _TELLING.search(" ".join(parts)):
        return True
    if any(two == "TOKEN" and one in _TOKENS_OF for one, two in zip(parts, parts[1:])):
        return True
    if any(one == "API" and two in ("KEY", "KEYS") for one, two in zip(parts, parts[1:])):
        return True
    qualified = False
    while len(parts) > 1 and (parts[-1] in _QUALIFIERS or len(parts[-1]) == 1):
        parts.pop()
        qualified = True
    last = parts[-1].rstrip("0123456789")
    before = parts[-2] if len(parts) > 1 else ""
    if last in ("PWD", "PASS"):
        return before not in _NO_PASS
    if last.endswith("TOKEN"):
        return (before if last == "TOKEN" else last[:-5]) not in _PLAIN_TOKENS
    if last == "TOKENS":
        return before in _TOKENS_OF
    if last == "KEY":
        return before not in _PLAIN_KEYS and not (qualified and not before)  # key_value is a pair's name
    if last == "KEYS":
        return before in _SECRET_KEYS
    if last in ("PAT", "COOKIE"):
        return before != ""
    if last == "AUTH":
        return before in ("BASIC", "HTTP", "PROXY", "REDISCLI", "NPM")
    return parts[-3:] == ["ACCESS", "KEY", "ID"]
