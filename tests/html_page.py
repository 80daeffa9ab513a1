# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A page of pdops as a parser sees it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}
#: Attributes by which a page loads something.
LOADING = {"src", "href", "srcset", "data", "action", "poster", "background", "xlink:href", "formaction"}


class Page(HTMLParser):
    """Refuses tags that are not balanced; keeps the text, the tags and all that would load something."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.loads: list[str] = []
        self.styles: list[str] = []
        self._texts: list[str] = []
        self.feed(source)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._keep(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._keep(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1] == tag, f"</{tag}> at {self.getpos()}, open are {self._open}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.styles.append(data)
        else:
            self._texts.append(data)

    def _keep(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _value in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice at {self.getpos()}"
        self.tags.append((tag, dict(attrs)))
        self.loads += [f"<{tag} {name}={value}>" for name, value in attrs if name in LOADING]
        self.loads += [f"<{tag} {name}>" for name in names if name.startswith("on")]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())

    def assert_whole(self) -> None:
        """One file that needs no other: it loads nothing, runs nothing, and its styles fetch nothing."""
        assert self.loads == []
        assert not {"script", "link", "iframe", "img", "object", "base"} & {tag for tag, _attributes in self.tags}
        style = "".join(self.styles)
        assert "@import" not in style and "http" not in style
        assert set(re.findall(r"url\(([^)]*)\)", style)) <= {"#down"}
