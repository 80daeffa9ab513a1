# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a machine tells for the record: its fingerprint, and the changes that its journal has. Read-only."""

from __future__ import annotations

from typing import Any

from ..change import record as rules
from ..change import who
from ..change.book import Book
from ..deployment import Instance, instance_from_dict
from ..pdops_error import PdopsError
from ..secret_masking import is_secret, mask_text
from ..store.store import Store
from .identity import fingerprint

#: Older ones were compared when they were newer.
MOST_CHANGES = 200
MOST_FINDINGS = 100


def _shown(knobs: Any) -> dict[str, list[Any]]:
    """Knobs with their values before and after; those with the name of a secret are left out."""
    found = {}
    for name, both in (knobs or {}).items():
        if not is_secret(name) and isinstance(both, list) and len(both) == 2:
            found[name] = [value if value is None else mask_text(f"{name}={value}").partition("=")[2] for value in both]
    return found


def testimony(instances: list[Instance], state_dir: str) -> dict[str, Any]:
    """``{fingerprint, changes, findings, trouble}``; changes that ended, the oldest first, without values of secrets."""
    store = Store(state_dir)
    records, trouble = Book(store).readable()
    specs = [instance.as_dict() for instance in instances]
    ended = [item for item in records if item["state"] in rules.ENDED and rules.overlaps(item, specs)]
    return {
        "fingerprint": fingerprint(instances),
        "changes": [
            {
                "id": item["id"],
                "verb": item.get("verb", ""),
                "state": item["state"],
                "who": who.told(item["leader"]),
                "ended": item.get("ended", ""),
                "summary": item["summary"],
                "files": [
                    {"instance": row.get("instance", ""), "knobs": _shown(row.get("knobs"))} for row in item["files"]
                ],
            }
            for item in ended[-MOST_CHANGES:]
        ],
        "findings": [
            {name: row.get(name) for name in ("at", "actor", "deployment", "instance", "found", "said", "entry")}
            for row in store.journal()
            if row.get("verb") == "found"
        ][-MOST_FINDINGS:],
        "trouble": trouble,
    }


def testimony_or_trouble(instances: list[dict[str, Any]], state_dir: str) -> dict[str, Any]:
    """As :func:`testimony`; without a fingerprint where it cannot be read, since an entry without one is worth more than none."""
    try:
        return testimony([instance_from_dict(item) for item in instances], state_dir)
    except (PdopsError, OSError) as error:
        return {"trouble": [str(error)]}
