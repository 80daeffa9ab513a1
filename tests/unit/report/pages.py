# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Stories of real runs, and their pages.

``stories/`` were kept from runs against the lab (so their figures are those of a simulation), with paths of the
machine replaced, and of probes only the first answers of each hop.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.pdops.sglang.plugins.action.pd_report import render
from ansible_collections.pdops.sglang.plugins.module_utils.report.view import make_view

STORIES = Path(__file__).parent / "stories"
NAMES = sorted(path.stem for path in STORIES.glob("*.json"))


def story(name: str) -> dict[str, Any]:
    return dict(json.loads((STORIES / f"{name}.json").read_text()))


def page_of(given: Any) -> str:
    return render(make_view(given))


ROOT_STYLE = Path(__file__).resolve().parents[3] / "templates" / "report" / "style.css"
