# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the template of a unit file needs to know, with words quoted by systemd's rules."""

from __future__ import annotations

import os
import re
from typing import Any

from ..services.unit_words import plain_or_quoted
from .settings import Serving


def service_of(serving: Serving) -> dict[str, Any]:
    """``pd_service`` of ``templates/serve.service.j2``."""
    instance = serving.instance
    folders = [os.path.dirname(instance.serve_script), serving.root, serving.venv, *serving.caches]
    return {
        "instance": _comment(instance.name),
        "role": instance.role,
        "deployment": _comment(serving.deployment),
        "command": f"/bin/bash {plain_or_quoted(instance.serve_script)}",
        # With an escape for %, and without quotes: this setting takes none.
        "working_directory": serving.run.replace("%", "%%"),
        "mounts": " ".join(plain_or_quoted(path) for path in dict.fromkeys(path for path in folders if path)),
        "user": serving.user,
        "stop_s": serving.stop_s,
        "numa": serving.numa,
        "cpus": serving.cpus,
        "options": [list(pair) for pair in serving.options],
    }


def _comment(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", text).replace("%", "%%")
