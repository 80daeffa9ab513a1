# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Intended values: what a confirmed change left as the knobs of an instance or a pair, one JSON file each, on the controller.

They belong into the operator's repo. They lie *beside* the inventory, since Ansible would read each file within an
inventory's folder as one more inventory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .. import knobs as knob_rules
from ..pdops_error import PdopsError
from ..store.atomic import read_regular, write_private
from ..store.obstacles import is_read_only, is_writable

SCHEMA = 1
KINDS = ("instance", "pair")
_MOST_BYTES = 1 << 20
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z\Z")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:-]{0,120}\Z")
_CHANGE = re.compile(r"[^\x00-\x1f\x7f]{1,120}\Z")


@dataclass(frozen=True)
class Intended:
    """The knobs at the last confirmed change. ``knobs`` has the set ones only: a name that is missing is intended to be unset.

    :ivar kind: ``instance`` (``name`` is the inventory's name of it) or ``pair`` (``name`` is the deployment)
    :ivar confirmed_at: ISO 8601 in UTC, as ``2026-11-29T20:04:56Z``
    """

    kind: str
    name: str
    knobs: Mapping[str, str]
    change_id: str
    actor: str
    confirmed_at: str


def folder_beside(inventory: str) -> str:
    """The folder of the intended values of an inventory: ``inventory/lab`` or ``inventory/lab.yml`` has ``inventory/lab.intended``."""
    path = os.path.normpath(os.path.abspath(inventory))
    if not os.path.isdir(path):
        path = re.sub(r"\.(?:ya?ml|ini|json|toml)\Z", "", path)
    return f"{path}.intended"


def path_of(folder: str, kind: str, name: str) -> str:
    """``<folder>/<instance>.json`` or ``<folder>/<deployment>.pair.json``."""
    if kind not in KINDS:
        raise PdopsError(f"{kind!r} has no intended values; it must be instance or pair.")
    if not _NAME.match(name) or (kind == "instance" and name.endswith(".pair")):
        raise PdopsError(f"{name!r} cannot be the name of a file of intended values; rename the host in the inventory.")
    return os.path.join(folder, f"{name}.pair.json" if kind == "pair" else f"{name}.json")


def to_bytes(intended: Intended) -> bytes:
    """The file's content: one knob a line, in the order of names, so that two changes merge like text.

    :raises PdopsError: a value is not what the schema allows, or a name looks like a secret's
    """
    document = {
        "schema": SCHEMA,
        intended.kind: intended.name,
        "knobs": {name: intended.knobs[name] for name in sorted(intended.knobs)},
        "change_id": intended.change_id,
        "actor": intended.actor,
        "confirmed_at": intended.confirmed_at,
    }
    _checked(document, f"the intended values of {intended.name}")
    return (json.dumps(document, indent=2, ensure_ascii=True) + "\n").encode("ascii")


def from_bytes(content: bytes, what: str) -> Intended:
    """The inverse of :func:`to_bytes`; ``what`` names the file in sentences.

    :raises PdopsError: it is no JSON, of another schema, or has a field too many, too few or of another type
    """
    try:
        document = json.loads(content.decode("utf-8"), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        told = "a merge left its marks in it" if b"<<<<<<<" in content else str(error)
        raise PdopsError(f"{what} is no JSON ({told}); mend it, or take it from the history of your repo.") from None
    return _checked(document, what)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} stands in it twice")
    return found


def _checked(document: object, what: str) -> Intended:
    if not isinstance(document, dict):
        raise PdopsError(f"{what} is no JSON object; mend it, or take it from the history of your repo.")
    if type(document.get("schema")) is not int or document["schema"] != SCHEMA:
        raise PdopsError(f"{what} has schema {document.get('schema')!r}, and this pdops reads {SCHEMA}; use its pdops.")
    kinds = [kind for kind in KINDS if kind in document]
    wanted = {"schema", "knobs", "change_id", "actor", "confirmed_at", *kinds}
    odd = sorted(map(str, wanted ^ set(document)))
    if len(kinds) != 1 or odd:
        raise PdopsError(
            f"{what} must have schema, instance or pair, knobs, change_id, actor and confirmed_at and nothing else; see {', '.join(odd or KINDS)}."
        )
    kind = kinds[0]
    for field, form in ((kind, _NAME), ("change_id", _CHANGE), ("actor", None), ("confirmed_at", _TIME)):
        value = document[field]
        if not isinstance(value, str) or (form is not None and not form.match(value)):
            raise PdopsError(f"{what} has {field} {value!r}, which is not what stands there; mend it.")
    given = document["knobs"]
    if not isinstance(given, dict):
        raise PdopsError(f"{what}: knobs is no object; write names and values.")
    values: dict[str, str] = {}
    for name, value in given.items():
        if not isinstance(value, str):
            raise PdopsError(f"{what}: the value of {name} is no string; quote it, or take the name out to unset it.")
        try:
            knob_rules.check_name(name)
            knob_rules.refuse_secret(name)
            knob_rules.check_value(name, value)
        except PdopsError as error:
            raise PdopsError(f"{what}: {error}") from None
        values[name] = value
    return Intended(kind, document[kind], values, document["change_id"], document["actor"], document["confirmed_at"])


def split(
    engines: Mapping[str, Mapping[str, str]], pair_names: Iterable[str]
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """What is to be recorded of a pair and of each of its engines, from the knobs that their scripts have.

    A name of ``pair_names`` (those of ``pd_pair_knobs``) is recorded as the pair's when all engines have it alike; else each
    engine that has it keeps its own value. So nothing is lost: the pair's and an engine's own together are its knobs.
    """
    names = set(pair_names)
    alike = {
        name: value
        for knobs in list(engines.values())[:1]
        for name, value in knobs.items()
        if name in names and all(other.get(name) == value for other in engines.values())
    }
    own = {
        engine: {name: value for name, value in knobs.items() if name not in alike} for engine, knobs in engines.items()
    }
    return alike, own


def read_intended(folder: str, kind: str, name: str) -> Optional[Intended]:
    """What is intended, or None when no change was confirmed yet.

    :raises PdopsError: the file cannot be read, is not what :func:`write_intended` writes, or is another one's
    """
    path = path_of(folder, kind, name)
    if not os.path.lexists(path):
        return None
    intended = from_bytes(read_regular(path, _MOST_BYTES), path)
    if (intended.kind, intended.name) != (kind, name):
        raise PdopsError(
            f"{path} holds the intended values of {intended.kind} {intended.name}; give each its own file."
        )
    return intended


def check_folder(folder: str) -> None:
    """Refuse, before any effect, a folder into which :func:`write_intended` could not write."""
    there = os.path.abspath(folder)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        reason = f"{there} is no folder"
    elif is_writable(there):
        return
    else:
        reason = (
            f"the file system of {there} is read-only" if is_read_only(there) else f"this user may not write in {there}"
        )
    raise PdopsError(
        f"the intended values could not be written into {folder} on the controller after the change: {reason}; put that right, "
        "or name another folder with pd_intended_dir."
    )


def write_intended(folder: str, intended: Intended) -> bool:
    """Write the file atomically; whether its content changed. Nothing is written when it is the same.

    :raises PdopsError: as :func:`to_bytes`, or the file cannot be written; it is then as it was
    """
    path = path_of(folder, intended.kind, intended.name)
    content = to_bytes(intended)
    if os.path.lexists(path) and read_regular(path, _MOST_BYTES) == content:
        return False
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise PdopsError(
            f"{folder} cannot be made ({error.strerror}); make it, or correct the inventory's path."
        ) from None
    write_private(os.path.realpath(path), content, 0o644)
    return True
