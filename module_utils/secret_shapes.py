# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Keys that are known by their form, whatever stands before them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .secret_values import Span

# Prefixes as the providers give them out. What is behind one is opaque: a name of a model, a package or a folder that begins
# so is shorter, has a dot or slash early on, or no digit and no capital in it.
_OPAQUE = r"(?=[A-Za-z_-]*[0-9A-Z])"
_FORMS = (
    r"hf_[A-Za-z0-9]{16,}",
    r"hf_(?:oauth|jwt)_[A-Za-z0-9._-]{16,}",
    rf"sk-(?:proj|ant|svcacct|admin|or|lf|None)-{_OPAQUE}[A-Za-z0-9_-]{{16,}}",
    r"sk-[A-Za-z0-9_]{20,}",
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"gl(?:pat|dt|rt|cbt)-[A-Za-z0-9_-]{16,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"xox[abeprs]-[A-Za-z0-9-]{16,}",
    r"xoxe\.xox[bp]-[A-Za-z0-9-]{10,}",
    rf"nvapi-{_OPAQUE}[A-Za-z0-9_-]{{20,}}",
    r"gsk_[A-Za-z0-9]{20,}",
    r"AIza[A-Za-z0-9_-]{35}",
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-AgE[A-Za-z0-9_-]{13,}",
    r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{16,}",
    r"xai-[A-Za-z0-9]{16,}",
    r"tgp_(?:v[0-9]_)?[A-Za-z0-9_-]{16,}",
    r"ya29\.[A-Za-z0-9_-]{16,}",
    # A JSON web token: two parts in base64 that begin with {", and a signature.
    r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{8,}",
)
_SHAPES = re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(_FORMS)})(?![A-Za-z0-9_])")
# Forty hexadecimal digits alone are a commit; behind this command they are its key.
_LOGIN = re.compile(r"\bwandb[ \t]+login[ \t]+(?:--?[a-z-]+(?:[ \t]+|=\S*[ \t]+)){0,4}[\"']?([A-Za-z0-9_-]{32,})")


def shaped_values(text: str) -> Iterator[Span]:
    """Where they stand."""
    for found in _SHAPES.finditer(text):
        yield found.span()
    for found in _LOGIN.finditer(text) if "wandb" in text else ():
        yield found.span(1)
