#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_record
short_description: Keep and read the record of a deployment
version_added: 0.1.0
description:
  - The record says what was done to the knobs of a deployment, what was measured and claimed, and what it costs. It is a folder of
    the operator's repo with one JSON file per entry, C(<evidence_dir>/<deployment>/<utc>-<kind>-<id>.json). The id is the hash of the
    file, so an entry that was edited is found; nobody writes a file twice, so git merges two checkouts without conflicts.
  - Folded, it says per knob which value is deployed and which verdict stands (V(unknown), V(trial), V(adopted), V(rejected),
    V(inconclusive), V(suspected), V(exonerated), V(convicted)), names what contradicts what, and lists debts, which are reverts
    that somebody has to come back to, each with the measured loss.
  - All of the work is done by the action plugin of the same name on the controller; no machine is touched.
  - Secrets are masked in every text of an entry, and a knob with the name of a secret is refused.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.controller
attributes:
  check_mode:
    description: Writes nothing then, and returns the entry that it would write.
    support: full
  diff_mode:
    description: Returns the differences of documents that O(render) changes.
    support: full
options:
  verb:
    description:
      - V(add) writes the entry O(entry). V(change) writes what a verb of pdops has done, O(done); that it could not be written is a
        warning and never a failure, since the change has ended already. It never reports a change, since the steps of the change do.
      - V(list) prints the entries, V(fold) what they say together, V(debt) only the debts.
      - V(check) also fails when an entry was edited, deleted (what refers to it, the journal of a machine, or git tells) or is malformed,
        when it shows a secret, or when entries contradict each other or a machine.
      - V(docs) compares O(docs) with the record and fails when something has to be reworded or rendered; with O(render) it
        renders the generated regions and returns the lines that only a person can reword.
    type: str
    choices: [add, change, list, fold, debt, check, docs]
    default: fold
  deployment:
    description: Name of the deployment.
    type: str
    required: true
  evidence_dir:
    description:
      - Folder of the record, on the controller; relative to the current directory.
      - If not set, C(evidence) in the folder of the project's C(ansible.cfg), or in the current directory when there is none. Not beside
        an inventory, since Ansible would read it as one.
    type: path
  entry:
    description:
      - The entry as a person types it. Keys are V(kind), V(knob), V(value) (or V(state=absent)), V(load), V(effect) and V(interval) in
        percent, V(level), V(pairs), V(cv), V(verdict), V(why), V(cause), V(found), V(confidence), V(missing), V(instance), V(entry) or
        V(refs).
      - Kinds that people write are V(propose), V(measure), V(suspect), V(triage), V(observe), V(exonerate), V(convict), V(correct) and
        V(note). The others are written by the verbs.
    type: dict
    default: {}
  done:
    description:
      - For V(change). Keys are C(verb), C(outcome) (V(confirmed), V(rolled-back), V(rollback-failed) or V(failed)), C(change_id),
        C(said), C(edits) and C(expect) of the plan, C(changes) of M(pdops.sglang.pd_change), and C(silent), the instances of machines
        that did not answer when everything was put back. Of these it is not known what became of the change until a later run sees it.
      - Of a run that only looks C(outcome) is V(found), with C(finding) (C(found), C(instance), C(said)), or V(held), with C(held)
        (what was asked; all when it is left out). What the record has already is not written again.
    type: dict
    default: {}
  reason:
    description: Why a knob is reverted; one that begins with V(suspicion) makes a debt.
    type: str
  review_by:
    description: Day on which somebody has to come back to a revert, or a number of days. Default 14 days for a suspicion.
    type: str
  unreported:
    description: Changes that guards rolled back without a controller, as M(pdops.sglang.pd_info) returns them; for V(change).
    type: list
    elements: dict
    default: []
  ended:
    description:
      - For V(change), changes of the machines that have ended, as M(pdops.sglang.pd_info) returns them. Those that were led from here
        and confirmed, and of which the record has no entry, are added.
    type: list
    elements: dict
    default: []
  machines:
    description: Results of M(pdops.sglang.pd_evidence); the fingerprint comes from them, and the journal that the record is compared with.
    type: list
    elements: dict
    default: []
  infos:
    description: Results of M(pdops.sglang.pd_info); the scripts that the record is compared with.
    type: list
    elements: dict
    default: []
  knob:
    description: Show only this knob.
    type: str
  docs:
    description: Markdown files, or folders of them, that follow the record.
    type: list
    elements: path
    default: []
  render:
    description: Render the generated regions in O(docs).
    type: bool
    default: false
  page_dir:
    description: Write the page of the deployment, C(record.html), into this folder.
    type: path
  typed:
    description: Take O(entry) from the extra variables of the command line, and check them all.
    type: bool
    default: false
  quiet:
    description: Print nothing.
    type: bool
    default: false
  say_none:
    description: With V(debt), print that there is no debt when there is none.
    type: bool
    default: false
notes:
  - Use the full name M(pdops.sglang.pd_record). The action plugin needs it.
seealso:
  - module: pdops.sglang.pd_evidence
"""

EXAMPLES = r"""
- name: Keep a measurement
  pdops.sglang.pd_record:
    verb: add
    deployment: dsv4
    entry:
      kind: measure
      knob: SGLANG_SM120_MMA_TARGET_CTAS
      value: 512
      load: C64
      effect: +12.8
      verdict: adopted

- name: Fail when documents say something that the record does not
  pdops.sglang.pd_record:
    verb: docs
    deployment: dsv4
    docs: [docs]
"""

RETURN = r"""
entries:
  description: The entries that were written, each with its id and file; with V(list) those that there are.
  returned: with V(add), V(change) and V(list)
  type: list
  elements: dict
knobs:
  description:
    - One dictionary per knob with C(knob), C(deployed) (value by instance), C(verdict), C(value) (that the verdict is about), C(cause),
      C(measured), C(verdicts) (of all values that the record knows, each with C(value), C(verdict) and C(cause)),
      C(unverified_since), C(unverified_why) and C(debt).
  returned: success
  type: list
  elements: dict
debt:
  description: One line per open debt.
  returned: success
  type: list
  elements: str
contradictions:
  description: What contradicts what, one sentence each.
  returned: success
  type: list
  elements: str
problems:
  description: What is wrong with the files of the record, one sentence each.
  returned: success
  type: list
  elements: str
reword:
  description: Lines of documents that a person has to reword, each with C(file), C(line) and C(said).
  returned: with V(docs)
  type: list
  elements: dict
rendered:
  description: Documents whose generated regions were rendered, or would be.
  returned: with V(docs)
  type: list
  elements: str
page:
  description: The page that was written.
  returned: with O(page_dir)
  type: str
by:
  description: Who writes, and on which host.
  returned: with V(change)
  type: str
lines:
  description: What was printed.
  returned: success
  type: list
  elements: str
warning:
  description: Why V(change) wrote no entry, otherwise empty.
  returned: with V(change)
  type: str
"""
