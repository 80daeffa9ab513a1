# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.record import folder
from ansible_collections.pdops.sglang.plugins.module_utils.record.fold import fold

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"


class Checkout:
    """One operator's checkout of the evidence folder."""

    def __init__(self, top, by="alice on ops1"):
        self.top, self.by = str(top), by

    def add(self, kind, now=None, **given):
        return folder.add(self.top, {"kind": kind, "deployment": "dsv4", "by": self.by, **given}, now)

    def set(self, after="512", before=None, kind="apply", **given):
        return self.add(kind, knob=KNOB, instance="dsv4-decode", before=before, after=after, **given)

    def measure(self, load="C64", effect_pct=12.8, verdict="adopted", **given):
        return self.add("measure", knob=KNOB, value="512", load=load, effect_pct=effect_pct, verdict=verdict, **given)

    def revert(self, **given):
        words = {"reason": "suspicion", "suspicion": True, "review_by": "2026-12-13", **given}
        return self.set(None, "512", "revert", **words)

    @property
    def reading(self):
        return folder.read(self.top, "dsv4")

    @property
    def folded(self):
        return fold(self.reading.entries)

    @property
    def knob(self):
        return self.folded.knobs[KNOB]


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path / "evidence")
