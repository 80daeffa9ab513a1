# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which versions and backups of a script ``from=`` means, and the knobs that a script has for the engine."""

from __future__ import annotations

import hashlib
import os

from . import knobs
from .pdops_error import PdopsError
from .scripts.analysis import analyse
from .scripts.reading import Reading
from .store.sources import Source


def _matches(source: Source, wanted: str) -> bool:
    if source.kind == "version":
        return source.label == wanted or (len(wanted) >= 6 and source.name.startswith(wanted))
    if wanted in (source.label, source.name, os.path.basename(source.name)):
        return True
    return len(wanted) >= 6 and hashlib.sha256(source.content).hexdigest().startswith(wanted)


def chosen_of(path: str, sources: list[Source], wanted: str | None, now: bytes) -> list[Source]:
    if wanted is None:
        return sources
    if wanted == "previous":
        # The newest stored content that is not the present one, as the store understands the word.
        return [source for source in sources if source.kind == "version" and source.content != now][:1]
    found = [source for source in sources if _matches(source, wanted)]
    if len({source.content for source in found}) > 1:
        raise PdopsError(
            f"from={wanted} means several contents of {path}: {', '.join(source.told for source in found)}; give the sha256 or the file name."
        )
    return found[:1]


def names_in(content: bytes) -> set[str]:
    """Knobs that the engine sees because of a script, also those whose value only a run tells; secrets left out."""
    return {name for name in analyse(content.decode("latin-1")).exported() if not knobs.is_secret(name)}


def values_in(reading: Reading) -> dict[str, str]:
    """Knobs whose value can be known without running the script, secrets left out."""
    return {
        name: export.value
        for name, export in reading.active().items()
        if export.value is not None and not knobs.is_secret(name)
    }
