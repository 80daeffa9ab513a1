# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Writes the report of a run on the controller, and prints its few lines.

A report tells of a change and is no part of it: that it could not be written is a warning, since a
failed task here would turn a good change into one that is rolled back.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import jinja2
from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.pdops.sglang.plugins.module_utils import bytecode, foreign_json
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import by_collection
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain
from ansible_collections.pdops.sglang.plugins.module_utils.report.files import write_report
from ansible_collections.pdops.sglang.plugins.module_utils.report.view import console_lines, make_view
from jinja2.bccache import Bucket

display = Display()

_MOST_REASON = 300
_COLORS = {"good": "green", "bad": "red", "warn": "yellow", "calm": "cyan"}


class ActionModule(ActionBase):
    _supports_check_mode = True
    _requires_connection = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(
            argument_spec={
                "story": {"type": "dict", "required": True},
                "folder": {"type": "path"},
                "quiet": {"type": "bool", "default": False},
            }
        )
        result.update(changed=False, lines=[], path="", latest="", warning="")
        try:
            self._report(given, result)
        except Exception as error:  # whatever a story holds: the change that it tells of has ended already
            told = str(error) if isinstance(error, (PdopsError, OSError)) else f"{type(error).__name__}: {error}"
            result["warning"] = plain(f"no report was written: {told[:_MOST_REASON]}")
            display.warning(result["warning"])
        return result

    def _report(self, given: dict[str, Any], result: dict[str, Any]) -> None:
        # Plain data: what comes from templates carries tags, which the standard library need not know.
        story = foreign_json.loads(json.dumps(given["story"], default=str))
        story["collection"] = by_collection(context.CLIARGS.get("args", ()))
        view = make_view(story)
        result["lines"] = lines = console_lines(view)
        if not given["quiet"]:
            for line in lines:
                text = plain(f"  [{view['deployment'] or 'pdops'}] {line}")
                display.display(text, color=_COLORS[view["outcome"]["tone"]])
        folder = given["folder"] or os.path.join("reports", _folder_name(view["deployment"]))
        page = render(view)
        # Relative to where the operator stands, as every path on a command line is.
        path, latest = write_report(os.path.abspath(os.path.expanduser(folder)), page, story)
        result.update(path=path, latest=latest)
        display.display(plain(f"report: {path}"))


def render(view: dict[str, Any]) -> str:
    """The page as one text. Everything is escaped, and a name that the view lacks is an error."""
    return environment().get_template("page.html.j2").render(view)


class _Kept(jinja2.FileSystemBytecodeCache):
    """Compiled templates; whatever hinders keeping them hinders nothing else."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def _kept() -> _Kept | None:
    folder = "" if sys.dont_write_bytecode else bytecode.folder_of(bytecode.home())
    return _Kept(folder, "page-%s") if folder else None


@functools.cache
def environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_templates()),
        bytecode_cache=_kept(),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _templates() -> Path:
    """``templates/report`` of the repo (this file is in action_plugins) or of an installed collection (plugins/action)."""
    here = Path(__file__).resolve()
    for parent in list(here.parents)[1:3]:
        found = parent / "templates" / "report"
        if found.is_dir():
            return found
    raise PdopsError(f"the page's templates are not beside {here}; install the collection again.")


def _folder_name(deployment: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in deployment).strip(".") or "deployment"
