# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Asks bash whether it can parse a script; nothing of the script runs."""

from __future__ import annotations

import os
import shutil
import subprocess

from .pdops_error import PdopsError
from .script_views import masked_beside

_BASH_S = 20.0


def check_syntax(path: str, content: bytes) -> None:
    """Refuse a new content of ``path`` that ``bash -n`` refuses, with bash's first sentence, secrets masked.

    Raises :class:`PdopsError`, also when there is no bash.
    """
    bash = shutil.which("bash") or shutil.which("bash", path=os.defpath)
    if bash is None:
        raise PdopsError(f"bash is not installed here, so the new content of {path} cannot be checked; install bash.")
    try:
        done = subprocess.run(
            [bash, "-n", "/dev/stdin"],
            input=content,
            capture_output=True,
            check=False,
            timeout=_BASH_S,
            env={"PATH": os.defpath, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PdopsError(
            f"the new content of {path} could not be checked by bash -n: {error}; see whether {bash} works."
        ) from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").replace("/dev/stdin", os.path.basename(path)).strip()
        first = masked_beside([content], said.split("\n")[0]) or f"bash -n ended with {done.returncode}"
        raise PdopsError(f"the new content of {path} is no valid bash, so it was not written: {first}")
