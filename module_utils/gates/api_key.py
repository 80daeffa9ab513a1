# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""API keys, read from files of the machine."""

from __future__ import annotations

import os
import stat
from typing import Optional

from ..pdops_error import PdopsError


def read_key(path: str) -> str:
    """The key in a file that only its owner may read; one line."""
    try:
        mode = os.stat(path).st_mode
        with open(path, encoding="utf-8") as file:
            key = file.read().strip()
    except OSError as error:
        raise PdopsError(f"the API key file {path} cannot be read ({error.strerror}): check api_key_file") from None
    except UnicodeDecodeError:
        raise PdopsError(f"the API key file {path} is not text") from None
    if stat.S_IMODE(mode) & 0o077:
        raise PdopsError(f"the API key file {path} is open to others (mode {stat.S_IMODE(mode):04o}): chmod 600 {path}")
    if not key or len(key.split()) != 1 or not key.isascii():
        raise PdopsError(f"the API key file {path} must hold one key and nothing else")
    return key


def optional_key(path: Optional[str]) -> Optional[str]:
    """The key in a file, or None when there is none that can be read."""
    try:
        return read_key(path) if path else None
    except PdopsError:
        return None
