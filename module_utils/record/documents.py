# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Markdown documents that follow the record: regions that are rendered from it, and prose that refers to its entries.

A region is ``<!-- pdops:begin VIEW [knob=NAME] -->`` to ``<!-- pdops:end -->``, each marker on a line of its own; what is between
them belongs to pdops, byte for byte, except within a fence (``` or ~~~), which shows an example. Everything else belongs to people and is only read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..pdops_error import PdopsError
from ..store.atomic import read_regular, sha256_of, why, write_private
from . import regions
from .fold import Folded
from .prose import Finding, Line, fenced, findings_of

_BEGIN = re.compile(r"\s*<!--\s*pdops:begin\b(?P<words>.*?)-->\s*\Z", re.DOTALL)
_END = re.compile(r"\s*<!--\s*pdops:end\s*-->\s*\Z")
_ANY = re.compile(r"<!--\s*pdops:")
MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class Looked:
    """One document: as it is, as it should be, and the lines that a person has to reword."""

    path: str
    before: str
    after: str
    findings: tuple[Finding, ...]

    @property
    def stale(self) -> bool:
        return self.before != self.after


def markdown_files(paths: Iterable[str]) -> list[str]:
    """The Markdown files that ``paths`` name, folders searched; :class:`PdopsError` for a path that names none."""
    found: list[str] = []
    for path in paths:
        if os.path.isfile(path):
            found.append(path)
            continue
        if not os.path.isdir(path):
            raise PdopsError(f"docs={path} does not exist; name a Markdown file or a folder of them.")
        inside = []
        for folder, folders, names in os.walk(path):
            folders[:] = [
                name for name in folders if not name.startswith(".")
            ]  # .git, .venv and their like are nobody's documents
            inside += [os.path.join(folder, name) for name in names if name.lower().endswith((".md", ".markdown"))]
        if not inside:
            raise PdopsError(f"docs={path} holds no Markdown file (*.md).")
        found += sorted(inside)
    return list(dict.fromkeys(found))


def look(path: str, folded: Folded) -> Looked:
    """Compare one document with the record."""
    text = read_regular(path, MOST_BYTES).decode("utf-8", "surrogateescape")
    after, prose, findings = _parted(text, folded)
    findings += findings_of(prose, folded)
    return Looked(path, text, after, tuple(sorted(findings, key=lambda item: item.line)))


def render(looked: Looked) -> bool:
    """Write the regions as they should be; False when they are. What people wrote stays byte for byte."""
    if not looked.stale:
        return False
    was = looked.before.encode("utf-8", "surrogateescape")
    if sha256_of(read_regular(looked.path, MOST_BYTES)) != sha256_of(was):
        raise PdopsError(f"{looked.path} was changed by somebody else in this moment; run again.")
    real = os.path.realpath(looked.path)
    try:
        mode = os.stat(real).st_mode & 0o777
    except OSError as error:
        raise PdopsError(f"{looked.path} cannot be read: {why(error, reading=True)}.") from None
    write_private(real, looked.after.encode("utf-8", "surrogateescape"), mode=mode)
    return True


def _parted(text: str, folded: Folded) -> tuple[str, list[Line], list[Finding]]:
    """The text with its regions rendered, the lines that are people's, and what is wrong with the markers."""
    lines = text.splitlines(keepends=True)
    out: list[str] = []
    prose: list[Line] = []
    findings: list[Finding] = []
    fence = ""
    at = 0
    while at < len(lines):
        begin = _BEGIN.fullmatch(lines[at])
        out.append(lines[at])
        fence, inside = fenced(lines[at], fence)
        if inside:  # an example of a region, say: it is no region, and its markers are no mistake
            prose.append(Line(at + 1, "" if _ANY.search(lines[at]) else lines[at]))
            at += 1
            continue
        if begin is None:
            if _ANY.search(lines[at]):
                said = "a marker of pdops that is no <!-- pdops:begin VIEW --> on a line of its own, or ends no region"
                findings.append(Finding(at + 1, said))
            prose.append(Line(at + 1, lines[at]))
            at += 1
            continue
        # A region parts the paragraphs around it.
        prose.append(Line(at + 1, ""))
        end = next((number for number in range(at + 1, len(lines)) if _ANY.search(lines[number])), len(lines))
        if end == len(lines) or not _END.fullmatch(lines[end]):
            findings.append(
                Finding(at + 1, "this region has no <!-- pdops:end --> before the next one, so it is left alone")
            )
            at += 1
            continue
        try:
            newline = "\r\n" if lines[at].endswith("\r\n") else "\n"
            out += [f"{line}{newline}" for line in regions.render(begin["words"], folded)]
        except PdopsError as error:
            findings.append(Finding(at + 1, str(error)))
            out += lines[at + 1 : end]
        out.append(lines[end])
        at = end + 1
    return "".join(out), prose, findings
