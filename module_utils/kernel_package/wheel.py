# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A wheel of pure Python, read whole and believed in nothing: each file against RECORD, each name against tricks."""

from __future__ import annotations

import base64
import csv
import email.parser
import hashlib
import io
import os
import re
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..pdops_error import PdopsError

#: NAME-VERSION-PYTHON-none-any.whl (PEP 427); a build number is not used here.
_FILE_NAME = re.compile(
    r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>[0-9][A-Za-z0-9.+!]*)-(?P<python>[a-z0-9.]+)-none-any\.whl"
)
_MOST_BYTES = 64 << 20
_MOST_FILES = 2000
_KEPT_CHARACTERS = re.compile(r"[^\x00-\x1f\x7f\\:]+")


@dataclass(frozen=True)
class Wheel:
    """What a wheel holds. ``files`` are paths below the folder that Python looks into, with their content.

    :ivar sha256: of the file as a whole
    :ivar requires_python: as METADATA has it, ``""`` for none; ``requires`` are its Requires-Dist lines
    """

    name: str
    version: str
    python: str
    sha256: str
    requires_python: str
    requires: tuple[str, ...]
    files: Mapping[str, bytes]

    @property
    def folder(self) -> str:
        """The name of the folder it is installed into: ``<version>-<first 8 of the sha256>``."""
        return f"{self.version}-{self.sha256[:8]}"

    @property
    def hashes(self) -> dict[str, str]:
        return {path: hashlib.sha256(content).hexdigest() for path, content in sorted(self.files.items())}

    def as_dict(self) -> dict[str, Any]:
        """Without the contents."""
        return {
            "name": self.name,
            "version": self.version,
            "python": self.python,
            "sha256": self.sha256,
            "folder": self.folder,
            "requires_python": self.requires_python,
            "requires": list(self.requires),
            "files": self.hashes,
        }


def read_wheel(path: str, expect_sha256: Optional[str] = None, called: Optional[str] = None) -> Wheel:
    """Read and check a wheel; nothing is written anywhere.

    :param expect_sha256: what the whole file must be
    :param called: its file name, when ``path`` is a copy of another name
    :raises PdopsError: it is no wheel of pure Python, not what was expected, or a file in it is not what RECORD says
    """
    name = called or os.path.basename(path)
    content = _content(path)
    sha256 = hashlib.sha256(content).hexdigest()
    if expect_sha256 is not None and sha256 != expect_sha256:
        raise PdopsError(
            f"{name} has sha256 {sha256[:12]} and not {expect_sha256[:12]}, so it is not the wheel that was meant; "
            "build or fetch it again."
        )
    match = _FILE_NAME.fullmatch(name)
    if match is None or "py3" not in match["python"].split("."):
        raise PdopsError(
            f"{name} is not named like a wheel of pure Python (NAME-VERSION-py3-none-any.whl); give such a one."
        )
    files = _files(name, content)
    folder = f"{match['name']}-{match['version']}.dist-info"
    _check_record(name, files, f"{folder}/RECORD")
    told = _headers(name, files, f"{folder}/METADATA")
    kind = _headers(name, files, f"{folder}/WHEEL")
    if kind.get("Root-Is-Purelib", "").strip().lower() != "true":
        raise PdopsError(f"{name} is not of pure Python (Root-Is-Purelib in its WHEEL); give one that is.")
    if _plain(told.get("Name", "")) != _plain(match["name"]) or told.get("Version") != match["version"]:
        raise PdopsError(f"{name} holds {told.get('Name')} {told.get('Version')}; rename it, or build it again.")
    return Wheel(
        name=match["name"],
        version=match["version"],
        python=match["python"],
        sha256=sha256,
        requires_python=(told.get("Requires-Python") or "").strip(),
        requires=tuple(told.get_all("Requires-Dist") or ()),
        files=files,
    )


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _content(path: str) -> bytes:
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise PdopsError(
                f"{path} has more than {_MOST_BYTES >> 20} MiB: no wheel of kernels in Python is that large."
            )
        with open(path, "rb") as source:
            return source.read()
    except OSError as error:
        raise PdopsError(f"the wheel {path} cannot be read ({error.strerror}); give the path of a wheel.") from None


def _files(name: str, content: bytes) -> dict[str, bytes]:
    """All files of the zip; refuses whatever could land outside of the folder, or twice in one place."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if len(members) > _MOST_FILES or sum(member.file_size for member in members) > _MOST_BYTES:
                raise PdopsError(
                    f"{name} unpacks to more than {_MOST_FILES} files or {_MOST_BYTES >> 20} MiB; it is refused."
                )
            files: dict[str, bytes] = {}
            folded: set[str] = set()
            for member in members:
                inside = _checked_name(name, member)
                if inside.lower() in folded:
                    raise PdopsError(f"{name} has {inside!r} twice; build it again.")
                folded.add(inside.lower())
                files[inside] = archive.read(member)
            return files
    # All that zipfile raises on foreign bytes: a method it does not know, an encrypted member, a wrong offset.
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise PdopsError(f"{name} is damaged ({error}); build or fetch it again.") from None


def _checked_name(name: str, member: zipfile.ZipInfo) -> str:
    inside = member.filename
    parts = inside.split("/")
    if (
        inside.startswith("/")
        or not _KEPT_CHARACTERS.fullmatch(inside)
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise PdopsError(f"{name} has a file named {inside!r}, which would land outside of its folder; it is refused.")
    mode = member.external_attr >> 16
    if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        raise PdopsError(f"{name} has {inside!r}, which is no regular file; it is refused.")
    if parts[0].endswith(".data") or "__pycache__" in parts or inside.endswith((".pth", ".so")):
        raise PdopsError(f"{name} has {inside!r}, which is not pure Python in its own package; it is refused.")
    return inside


def _check_record(name: str, files: Mapping[str, bytes], record: str) -> None:
    if record not in files:
        raise PdopsError(f"{name} has no {record}; it is no wheel, build it again.")
    listed: set[str] = set()
    for row in csv.reader(io.StringIO(files[record].decode("utf-8", "replace"))):
        if not row:
            continue
        path, told = row[0], row[1] if len(row) > 1 else ""
        listed.add(path)
        if path == record:
            continue
        if path not in files:
            raise PdopsError(f"{name} lacks {path}, which its RECORD lists; build or fetch it again.")
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest()).rstrip(b"=").decode()
        if told != f"sha256={digest}":
            raise PdopsError(
                f"{name}: {path} is not what its RECORD says; it was altered or damaged, build or fetch it again."
            )
    more = sorted(set(files) - listed - {record})
    if more:
        raise PdopsError(
            f"{name} has {more[0]}, which its RECORD does not list; it was altered, build or fetch it again."
        )


def _headers(name: str, files: Mapping[str, bytes], path: str) -> Any:
    if path not in files:
        raise PdopsError(f"{name} has no {path}; it is no wheel, build it again.")
    return email.parser.Parser().parsestr(files[path].decode("utf-8", "replace"), headersonly=True)
