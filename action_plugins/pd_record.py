# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Keeps, reads and prints the record on the controller; a list in the result would bury what it says."""

from __future__ import annotations

import datetime
import json
import os
from typing import Any

from ansible import constants, context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.pdops.sglang.plugins.action.pd_report import environment
from ansible_collections.pdops.sglang.plugins.module_utils import foreign_json
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.asked import PARAMETERS, check_extra_names
from ansible_collections.pdops.sglang.plugins.module_utils.change.who import operator
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain
from ansible_collections.pdops.sglang.plugins.module_utils.record import (
    documents,
    doings,
    findings,
    folder,
    from_git,
    reasons,
    text,
    words,
)
from ansible_collections.pdops.sglang.plugins.module_utils.record.data import entry_data, knob_data, merged_fingerprint
from ansible_collections.pdops.sglang.plugins.module_utils.record.fingerprints import is_simulation
from ansible_collections.pdops.sglang.plugins.module_utils.record.fold import Folded, fold
from ansible_collections.pdops.sglang.plugins.module_utils.record.joining import (
    against_journal,
    against_scripts,
    findings_gone,
    unwritten,
)
from ansible_collections.pdops.sglang.plugins.module_utils.record.masking import holds_secret
from ansible_collections.pdops.sglang.plugins.module_utils.record.page import page_view
from ansible_collections.pdops.sglang.plugins.module_utils.record.place import evidence_folder
from ansible_collections.pdops.sglang.plugins.module_utils.record.planned import intended_of
from ansible_collections.pdops.sglang.plugins.module_utils.secret_masking import mask_text
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import write_private

display = Display()

_SHOWN = ("fold", "list", "debt", "check")
_TAKEN = ("docs",)

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "verb": {"type": "str", "default": "fold", "choices": ["add", "change", "list", "fold", "debt", "check", "docs"]},
    "deployment": {"type": "str", "required": True},
    "evidence_dir": {"type": "path"},
    "entry": {"type": "dict", "default": {}},
    "done": {"type": "dict", "default": {}},
    "reason": {"type": "str"},
    "review_by": {"type": "str"},
    "unreported": {"type": "list", "elements": "dict", "default": []},
    "ended": {"type": "list", "elements": "dict", "default": []},
    "machines": {"type": "list", "elements": "dict", "default": []},
    "infos": {"type": "list", "elements": "dict", "default": []},
    "knob": {"type": "str"},
    "docs": {"type": "list", "elements": "path", "default": []},
    "render": {"type": "bool", "default": False},
    "page_dir": {"type": "path"},
    "quiet": {"type": "bool", "default": False},
    "say_none": {"type": "bool", "default": False},
    "typed": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True
    _requires_connection = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(argument_spec=_ARGUMENTS)
        # Plain data: what comes from templates carries tags, which the standard library need not know.
        self.given: dict[str, Any] = foreign_json.loads(json.dumps(given, default=str))
        self.dir = evidence_folder(self.given["evidence_dir"], constants.CONFIG_FILE, os.getcwd())
        self.today = datetime.datetime.now(datetime.timezone.utc).date()
        result.update(changed=False, lines=[])
        verb = self.given["verb"]
        try:
            if self.given["typed"]:
                self._take_typed()
            result.update(getattr(self, f"_{verb}")())
            if self.given["page_dir"] and not self._task.check_mode:
                result["page"] = self._page(result)
                if result["page"] and verb != "change":
                    self._show([f"page: {result['page']}"])
        except Exception as error:
            if verb != "change":
                if isinstance(error, PdopsError):
                    said = as_typed(str(error), context.CLIARGS.get("args", ()))
                    return {**result, "failed": True, "msg": said, **error.details}
                raise
            # The change has ended already, and a failed task would turn a good one into one that is rolled back.
            told = str(error) if isinstance(error, (PdopsError, OSError)) else f"{type(error).__name__}: {error}"
            result.update(entries=[], by=operator(), warning=plain(f"the record was not written: {told[:400]}"))
            display.warning(result["warning"])
        return result

    # -- verbs -----------------------------------------------------------------------------------

    def _add(self) -> dict[str, Any]:
        entry = words.entry_of(self.given["entry"], self._read()[1])
        if entry["kind"] == "measure" or self.given["machines"]:
            entry.update(self._circumstances(entry["kind"]))
        return self._written([entry])

    def _change(self) -> dict[str, Any]:
        _reading, folded = self._read()
        done = self.given["done"]
        made: list[dict[str, Any]] = []
        for change in self.given["unreported"]:
            guarded = {
                **change,
                "outcome": change.get("state"),
                "change_id": change["id"],
                "said": change.get("reason"),
                "changes": [change],
            }
            made += doings.entries_of(guarded, None, folded)
        made = doings.not_told_yet(made, folded)
        for missing in unwritten(folded, self.given["ended"], operator()):
            made += doings.entries_of(missing, None, folded)
        if done.get("outcome") in ("found", "held", "registered"):
            made += findings.entries_of(done, folded)
        elif done:
            asked = {"reason": self.given["reason"], "review_by": self.given["review_by"]}
            reason = reasons.check(str(done.get("verb")), asked, self.today) if asked["reason"] else None
            circumstances = self._circumstances("change")
            for entry in doings.not_told_yet(doings.entries_of({**done, **circumstances}, reason, folded), folded):
                if circumstances.get("simulation"):
                    entry["simulation"] = True
                made.append(entry)
        if not made:
            return {**self._state(), "entries": [], "warning": "", "by": operator()}
        # The steps of the change report what changed; that they are written down changes nothing more.
        return {**self._written(made), "changed": False, "warning": "", "by": operator()}

    def _list(self) -> dict[str, Any]:
        reading, folded = self._read()
        knob = self.given["knob"]
        entries = [kept for kept in reading.entries if not knob or kept.data.get("knob") == knob]
        lines = [text.entry_line(kept, folded.corrected) for kept in entries]
        if not lines:
            lines.append(text.nothing_of(folded, knob) if knob and reading.entries else "the record is empty")
        lines += [f"problem: {sentence}" for sentence in reading.problems]
        return {**self._state(), "entries": [entry_data(kept) for kept in entries], "lines": self._show(lines)}

    def _fold(self) -> dict[str, Any]:
        state = self._state()
        _reading, folded = self._read()
        lines = text.fold_lines(folded, state["problems"], self._day, self.given["knob"])
        lines += [f"contradiction: {said}" for said in state["contradictions"] if said not in folded.contradictions]
        return {**state, "lines": self._show(lines)}

    def _debt(self) -> dict[str, Any]:
        _reading, folded = self._read()
        knob = self.given["knob"]
        lines = [f"debt: {line}" for line in text.debt_lines(folded, self._day, knob)]
        if not lines and knob and knob not in folded.knobs:
            lines.append(text.nothing_of(folded, knob))
        elif not lines and self.given["say_none"]:
            lines.append(f"no debt{f' of {knob}' if knob else ''}")
        return {**self._state(), "lines": self._show(lines)}

    def _check(self) -> dict[str, Any]:
        state = self._state()
        reading, _folded = self._read()
        wrong = [*state["problems"], *state["contradictions"], *folder.ahead(reading.entries)]
        wrong += from_git.gone(reading.folder, folder.names_in(reading.folder))
        wrong += [
            f"{reading.folder}/{kept.file} shows a secret: change that secret now, take the file out of git's history, and keep it out."
            for kept in reading.entries
            if holds_secret(kept.data)
        ]
        if wrong:
            self._show([f"wrong: {said}" for said in wrong], "red")
            return {
                **state,
                "failed": True,
                "msg": f"{wrong[0]}{f' And {len(wrong) - 1} more, listed above.' if len(wrong) > 1 else ''}",
            }
        line = f"the record holds: {len(reading.entries)} entries, none edited, gone or malformed, nothing contradicts"
        return {**state, "lines": self._show([line])}

    def _docs(self) -> dict[str, Any]:
        """Compare, or with render also write. Rendering is done for all documents, whatever has to be reworded in one."""
        _reading, folded = self._read(False)
        if not self.given["docs"]:
            raise PdopsError("docs needs a path: a Markdown file or a folder of them, as in -e docs=docs.")
        looks = [documents.look(path, folded) for path in documents.markdown_files(self.given["docs"])]
        stale = [look for look in looks if look.stale]
        render = self.given["render"]
        if render and not self._task.check_mode:
            for look in stale:
                documents.render(look)
            # Lines have moved; a person opens the document as it is now.
            looks = [documents.look(look.path, folded) for look in looks]
        reword = [{"file": look.path, "line": line, "said": said} for look in looks for line, said in _by_line(look)]
        word = (
            "rendered"
            if render
            else "a generated region does not say what the record says; render it with -e render=true"
        )
        lines = [f"{look.path}: {word}" for look in stale]
        lines += [f"{item['file']}:{item['line']}: {item['said']}" for item in reword]
        count = f"{len(looks)} document{'s' if len(looks) != 1 else ''}"
        if not reword and (render or not stale):
            lines.append(f"{count} say{'s' if len(looks) == 1 else ''} what the record says")
        result: dict[str, Any] = {**self._state(), "reword": reword, "rendered": [look.path for look in stale]}
        result.update(
            changed=render and bool(stale),
            lines=self._show(lines, "red" if reword or (stale and not render) else "cyan"),
        )
        if self._task.diff and render:
            result["diff"] = [
                {"before": look.before, "after": look.after, "before_header": look.path, "after_header": look.path}
                for look in stale
            ]
        if not render and (reword or stale):
            result.update(
                failed=True,
                msg=f"{len(reword)} line{'s' if len(reword) != 1 else ''} to reword and {len(stale)} document"
                f"{'s' if len(stale) != 1 else ''} to render, listed above.",
            )
        return result

    def _take_typed(self) -> None:
        """The words of an entry as the operator typed them; what may be a slip of the pen is refused."""
        extra: dict[str, Any] = foreign_json.loads(json.dumps(load_extra_vars(self._loader), default=str))
        check_extra_names(name for name in extra if name not in words.WORDS)
        for name in extra:
            if name in PARAMETERS and name not in (*words.WORDS, *_TAKEN):
                raise PdopsError(
                    f"record takes no {name}=; it takes show=, docs=, or an entry, as in: {words.example('measure')}"
                )
        show = extra.get("show")
        if show is not None and show not in _SHOWN:
            raise PdopsError(f"show={show} is unknown; it must be one of {', '.join(_SHOWN)}.")
        typed = {name: extra[name] for name in words.WORDS if name in extra}
        if "kind" not in typed and set(typed) - {"knob"}:
            raise PdopsError(
                f"an entry needs kind=; it must be one of {', '.join(words.BY_HAND)}, as in: {words.example('measure')}"
            )
        if "kind" in typed:
            check = words.entry_of(typed, self._read()[1])
            folder.add(self.dir, {"deployment": self.given["deployment"], "by": "somebody", **check}, dry=True)
        self.given["entry"] = typed

    # -- parts -----------------------------------------------------------------------------------

    @property
    def _day(self) -> str:
        return self.today.isoformat()

    def _read(self, with_machines: bool = True) -> tuple[folder.Reading, Folded]:
        """Documents are compared without the machines: what they say must not depend on who can reach which."""
        reading = folder.read(self.dir, self.given["deployment"])
        return reading, fold(reading.entries, merged_fingerprint(self.given["machines"]) if with_machines else None)

    def _circumstances(self, kind: str) -> dict[str, Any]:
        """Fingerprint and whether its engines are simulated, when a machine was asked."""
        print_ = merged_fingerprint(self.given["machines"])
        if not print_:
            return {}
        found: dict[str, Any] = {"fingerprint": print_} if kind in ("measure", "change", "observe", "propose") else {}
        if is_simulation(print_):
            found["simulation"] = True
        return found

    def _written(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        kept = []
        for entry in entries:
            whole = {"deployment": self.given["deployment"], "by": operator(), **entry}
            kept.append(folder.add(self.dir, whole, dry=self._task.check_mode))
        lines = [f"record: {text.entry_line(item, {})}" for item in kept]
        return {
            **self._state(),
            "changed": True,
            "entries": [entry_data(item) for item in kept],
            "lines": self._show(lines),
        }

    def _state(self) -> dict[str, Any]:
        reading, folded = self._read()
        contradictions = [*folded.contradictions]
        for machine in self.given["machines"]:
            contradictions += against_journal(folded, machine.get("changes") or ())
            noted = [row for row in machine.get("findings") or () if row.get("deployment") == self.given["deployment"]]
            contradictions += findings_gone(folded, noted)
        contradictions += against_scripts(folded, intended_of(self.given["infos"]))
        return {
            "knobs": [knob_data(knob, self._day) for _name, knob in sorted(folded.knobs.items())],
            "debt": text.debt_lines(folded, self._day),
            "contradictions": contradictions,
            "problems": list(reading.problems),
        }

    def _page(self, result: dict[str, Any]) -> str:
        """Write the page of the deployment; empty, with a warning, when it cannot be written: it only tells."""
        reading, folded = self._read()
        view = page_view(
            self.given["deployment"], folded, result["contradictions"], reading.problems, self._day, reading.folder
        )
        place = os.path.abspath(os.path.expanduser(self.given["page_dir"]))
        path = os.path.join(place, "record.html")
        try:
            os.makedirs(place, exist_ok=True)
            write_private(path, environment().get_template("record.html.j2").render(view).encode(), mode=0o644)
        except (PdopsError, OSError) as error:
            display.warning(plain(f"the page of the record was not written: {str(error)[:300]}"))
            return ""
        return path

    def _show(self, lines: list[str], color: str = "cyan") -> list[str]:
        lines = [mask_text(line) for line in lines]
        if not self.given["quiet"]:
            for line in lines:
                display.display(
                    as_typed(plain(f"  [{self.given['deployment']}] {line}"), context.CLIARGS.get("args", ())),
                    color=color,
                )
        return lines


def _by_line(look: documents.Looked) -> list[tuple[int, str]]:
    """All that is wrong with one line, as one sentence."""
    found: dict[int, list[str]] = {}
    for item in look.findings:
        found.setdefault(item.line, []).append(item.said)
    return [(line, "; ".join(said)) for line, said in found.items()]
