# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which Python packages a process really uses, and whether their files are those that were installed.

Package metadata by the PyPA specifications: ``*.dist-info/RECORD`` (path, ``sha256=`` in urlsafe base64 without padding, size) and
``direct_url.json`` (editable and version-controlled installs).
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Optional
from urllib.parse import unquote, urlsplit

from .. import foreign_json
from ..kernel_package.selection import FOLDER
from .fingerprints import NOT_SEEN

#: A file of a library that is larger is compared by its size only: hashing gigabytes of kernels would hold a change up.
MOST_HASHED = 32 << 20
_SITE = re.compile(r"(/\S*?/(?:site|dist)-packages)/")
_MOST_NAMED = 3


@dataclass(frozen=True)
class Package:
    """An installed distribution. ``folder`` is its ``*.dist-info``."""

    name: str
    version: str
    folder: str


def site_folders(pid: int, program: str, python_path: str = "") -> list[str]:
    """Where the packages of a running process are: in its PYTHONPATH, in its interpreter's environment, and from what it has mapped.

    In the order in which Python looks. A link to the interpreter loses its environment in ``/proc/PID/exe``, so the command line
    counts; a process that overwrote that one still has its extension modules mapped.
    """
    found = [place for place in python_path.split(":") if os.path.isabs(place)]
    home = os.path.dirname(os.path.dirname(program)) if os.path.isabs(program) else ""
    if home and os.path.isfile(os.path.join(home, "pyvenv.cfg")):
        library = os.path.join(home, "lib")
        for name in sorted(_listed(library)):
            place = os.path.join(library, name, "site-packages")
            if name.startswith("python") and os.path.isdir(place):
                found.append(place)
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as source:
            for line in source:
                mapped = _SITE.search(line)
                if mapped:
                    found.append(mapped[1])
    except OSError:
        pass  # not ours to see; the environment may have been enough
    return list(dict.fromkeys(os.path.realpath(place) for place in found))


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def find(folders: Iterable[str], names: Iterable[str]) -> list[Package]:
    """The packages of these names, in that order; names are compared as PyPI normalizes them."""
    there: dict[str, Package] = {}
    for folder in folders:
        for entry in _listed(folder):
            if entry.endswith(".dist-info"):
                name, _, version = entry[: -len(".dist-info")].partition("-")
                there.setdefault(_normal(name), Package(_normal(name), version, os.path.join(folder, entry)))
    return [there[_normal(name)] for name in names if _normal(name) in there]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def identity(package: Package, until_s: float) -> str:
    """``0.5.23, files as installed``, ``0.5.23, 2 files differ (a.py, b.py; 1f2e3d4c)``, ``0.5.23, editable at commit 0123456789ab``.

    :param until_s: of the monotonic clock; what is not done by then is not observable
    """
    top = os.path.basename(os.path.dirname(package.folder))
    # Of kernels the folder's name is more: a wheel that was built anew under the same version has another one.
    told = [top if top.startswith(f"{package.version}-") and FOLDER.fullmatch(top) else package.version]
    source = _source_of(package)
    if source:
        told.append(source)
    told.append(_files(package, until_s))
    return ", ".join(part for part in told if part)


def _source_of(package: Package) -> str:
    try:
        with open(os.path.join(package.folder, "direct_url.json"), "rb") as file:
            told = foreign_json.loads(file.read(1 << 20))
    except (OSError, ValueError):
        return ""
    if not isinstance(told, dict):
        return ""
    pinned = told.get("vcs_info")
    if isinstance(pinned, dict) and pinned.get("commit_id"):
        return f"commit {str(pinned['commit_id'])[:12]}"
    editable = isinstance(told.get("dir_info"), dict) and told["dir_info"].get("editable")
    if not editable:
        return ""
    path = unquote(urlsplit(str(told.get("url", ""))).path)
    return f"editable at commit {commit_of(path) or NOT_SEEN}, code {code_of(path)}"


def commit_of(path: str) -> Optional[str]:
    """The commit that a checkout has, read without git (which may not be there, or refuse another user's checkout)."""
    while path not in ("", "/"):
        head = _read(os.path.join(path, ".git", "HEAD"))
        if head:
            if not head.startswith("ref:"):
                return head[:12]
            name = head[4:].strip()
            direct = _read(os.path.join(path, ".git", name))
            if direct:
                return direct[:12]
            for line in _read(os.path.join(path, ".git", "packed-refs")).splitlines():
                if line.endswith(f" {name}"):
                    return line[:12]
            return None
        path = os.path.dirname(path)
    return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20).strip()
    except OSError:
        return ""


def code_of(path: str) -> str:
    """A hash of all Python files under a checkout: what is not committed counts, too."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in ("__pycache__", "build")
        )
        for name in sorted(names):
            if name.endswith(".py"):
                try:
                    with open(os.path.join(folder, name), "rb") as file:
                        content = file.read(MOST_HASHED)
                except OSError:
                    continue
                digest.update(f"{os.path.relpath(os.path.join(folder, name), path)}\0{len(content)}\0".encode())
                digest.update(content)
    return digest.hexdigest()[:8]


def _files(package: Package, until_s: float) -> str:
    """Every file against RECORD. Compiled Python is left out, since it comes and goes."""
    try:
        with open(
            os.path.join(package.folder, "RECORD"), encoding="utf-8", errors="surrogateescape", newline=""
        ) as source:
            rows = [row for row in csv.reader(source) if len(row) == 3]
    except (OSError, csv.Error):
        return "files not observable (no RECORD)"
    top = os.path.dirname(package.folder)
    differ: list[str] = []
    digest = hashlib.sha256()
    for name, wanted, size in rows:
        if not wanted.startswith("sha256=") or name.endswith(
            (".pyc", "/RECORD", "INSTALLER", "direct_url.json", "REQUESTED")
        ):
            continue
        if time.monotonic() > until_s:
            return f"files {NOT_SEEN} in time"
        found = _compare(os.path.join(top, name), wanted, size)
        if found:
            differ.append(name)
            digest.update(f"{name}\0{found}\0".encode("utf-8", "surrogateescape"))
    if not differ:
        return "files as installed" if rows else "files not observable (RECORD is empty)"
    named = ", ".join(differ[:_MOST_NAMED]) + (", …" if len(differ) > _MOST_NAMED else "")
    return f"{len(differ)} file{'s differ' if len(differ) > 1 else ' differs'} ({named}; {digest.hexdigest()[:8]})"


def _compare(path: str, wanted: str, size: str) -> str:
    """'' when the file is the one that was installed, otherwise its hash, or why there is none."""
    try:
        with open(path, "rb") as file:
            there = os.fstat(file.fileno()).st_size
            if there > MOST_HASHED:
                return "" if str(there) == size else f"{there} bytes"
            digest = hashlib.sha256(file.read()).digest()
    except OSError as error:
        return error.strerror or "unreadable"
    told = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return "" if told == wanted[len("sha256=") :].rstrip("=") else told
