#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: serve_version
short_description: List, show, compare, import, restore and prune the stored versions of one serve script
version_added: 0.1.0
description:
  - Every content that pdops ever wrote to a serve script, and every one that it found there, is kept under O(state_dir) as a version.
    This module looks at them and takes care of them, one script at a time.
  - Contents are shown with the values of secrets masked.
  - Restoring replaces the script and does not touch the running process. To bring it into effect with a restart, gates and a way
    back, run C(restart.yml) afterwards; to bring only a knob back, use C(restore_knob.yml).
  - To see the versions of a whole deployment, use the playbook C(history.yml).
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.state
attributes:
  check_mode:
    description: V(import), V(restore) and V(prune) work everything out and write nothing; the other verbs never write.
    support: full
  diff_mode:
    description: V(restore) shows the difference. V(diff) returns it in any case, also as lines to read (RV(unified)).
    support: full
options:
  path:
    description: The serve script. A symlink is followed. Only O(verb=verify) goes without it.
    type: path
  verb:
    description:
      - V(list) lists versions, the newest first, each with the knobs that it changed, and the backups beside the script.
      - V(show) returns one content.
      - V(diff) compares any two contents.
      - V(import) makes versions of backups that lie beside the script, under their own label and with their modification time.
        The backups stay where they are.
      - V(restore) puts the whole content of a version or a backup back.
      - V(prune) forgets old versions.
      - V(verify) looks through the whole store for what is damaged, lost or foreign, and changes nothing.
    type: str
    choices: [list, show, diff, import, restore, prune, verify]
    default: list
  version:
    description:
      - For V(show) and V(restore), the content that is meant. It is the label or the first 6 or more digits of the sha256 of a version or
        of a backup, the file name of a backup, the full path of a file, V(previous) (the newest stored content before the one that the script has now)
        or V(now) (what the script holds).
    type: str
  before:
    description: For V(diff), the old side, named as O(version) is.
    type: str
    default: previous
  after:
    description: For V(diff), the new side, named as O(version) is.
    type: str
    default: now
  knob:
    description: For V(list), only versions in which this knob changed and backups that have it.
    type: str
  backups:
    description:
      - For V(import), the backups that become versions, by label, file name or full path. If empty, all beside the script do.
    type: list
    elements: str
    default: []
  keep:
    description:
      - For V(prune), how many of the newest versions stay. With O(older_than_s) a version goes only when both say so.
      - The newest version, the content that the script has now, and contents that an open change or one whose rollback
        failed needs stay in any case.
    type: int
  older_than_s:
    description: For V(prune), the age in seconds that a version must have to go.
    type: float
  expect_sha256:
    description: For V(restore), refuse when the script is not this content any more.
    type: str
  label:
    description:
      - For V(restore), the label of the version that it makes; if empty, it tells what was restored.
      - For V(import) of a single backup, the label in place of its own.
    type: str
    default: ""
  strict:
    description:
      - For V(verify), fail when there is a finding. Otherwise each one is a warning, and RV(ok) tells.
    type: bool
    default: false
  actor:
    description: Who does this, for the journal.
    type: str
    default: ""
  change_id:
    description: For V(restore), the id of the open change to which it belongs. A script that another open change holds is refused.
    type: str
seealso:
  - module: pdops.sglang.serve_knob
"""

EXAMPLES = r"""
- name: List what the script was
  pdops.sglang.serve_version:
    path: /root/serve_dsv4_decode.sh

- name: See what changed since the version before
  pdops.sglang.serve_version:
    path: /root/serve_dsv4_decode.sh
    verb: diff

- name: Make a version of the old backup
  pdops.sglang.serve_version:
    path: /root/serve_dsv4_decode.sh
    verb: import
    backups: [pretgt_revert_2025]

- name: Put a whole version back
  pdops.sglang.serve_version:
    path: /root/serve_dsv4_decode.sh
    verb: restore
    version: 07ce53ab12de

- name: Forget what is older than 90 days, but keep 20 versions
  pdops.sglang.serve_version:
    path: /root/serve_dsv4_decode.sh
    verb: prune
    keep: 20
    older_than_s: 7776000

- name: Fail when the store is damaged
  pdops.sglang.serve_version:
    verb: verify
    strict: true
"""

RETURN = r"""
path:
  description: The script.
  returned: success, except with O(verb=verify)
  type: str
versions:
  description:
    - The versions, the newest first. C(knobs) are those that differ to the next older version, C(other_lines) is the number of
      lines that differ besides, C(now) tells whether the script holds this content, C(first) whether nothing older is known (then all its knobs count
      as new), and C(problem) why the content cannot be had.
  returned: with V(list)
  type: list
  elements: dict
  sample:
    - sha256: 07ce53...
      label: restore SGLANG_SM120_MMA_TARGET_CTAS
      time: "2026-11-29T16:45:12Z"
      actor: alice@ops (pid 4711)
      change_id: 20261129T164512-restore-1f2e3d
      size: 1234
      now: true
      first: false
      knobs: {SGLANG_SM120_MMA_TARGET_CTAS: {before: null, after: "512"}}
      other_lines: 0
      problem: null
versions_total:
  description: How many versions there are, whatever O(knob) leaves out.
  returned: with V(list)
  type: int
script:
  description: The script as it is now. C(stored) tells whether it is a version; C(knobs) are those that differ to the newest one.
  returned: with V(list)
  type: dict
backups:
  description: Backups beside the script, the newest first. C(knobs) are those that differ from the backup to the script.
  returned: with V(list)
  type: list
  elements: dict
meant:
  description: The knob of nearly that name, when neither the script nor any of its versions and backups has O(knob); else null.
  returned: with V(list)
  type: str
passed_over:
  description: A sentence for each version or backup that was passed over.
  returned: with V(list) and V(import)
  type: list
  elements: str
source:
  description: The content that was meant. With V(show) it has C(content), C(knobs) and C(findings), secrets masked.
  returned: with V(show) and V(restore)
  type: dict
diff:
  description: Both contents, secrets masked on both sides.
  returned: with V(diff); with V(restore) in diff mode
  type: dict
unified:
  description: The difference as lines to read, secrets masked.
  returned: with V(diff)
  type: list
  elements: str
lines:
  description: The lines that differ.
  returned: with V(diff)
  type: list
  elements: dict
  sample: [{sign: "-", line: 10, text: "export SGLANG_LOG_MS=1"}]
knobs:
  description: The knobs that differ, before and after; null is not exported.
  returned: with V(diff) and V(restore)
  type: dict
  sample: {SGLANG_SM120_MMA_TARGET_CTAS: {before: null, after: "512"}}
other_lines:
  description: With V(diff) the number of lines that differ besides those of the knobs, with V(restore) all changed lines.
  returned: with V(diff) and V(restore)
  type: raw
sha256_before:
  description: Identity of the content before.
  returned: with V(diff) and V(restore)
  type: str
sha256_after:
  description: Identity of the content after.
  returned: with V(diff) and V(restore)
  type: str
imported:
  description: The backups that were meant; C(known) ones were versions already.
  returned: with V(import)
  type: list
  elements: dict
pruned:
  description: The versions that went, or would go.
  returned: with V(prune)
  type: list
  elements: dict
kept:
  description: Versions that would have gone by count and age, each with the C(reason) why it stays.
  returned: with V(prune)
  type: list
  elements: dict
removed_objects:
  description: Identities of the contents that went with them, or were left by an earlier prune that was cut short.
  returned: with V(prune)
  type: list
  elements: str
ok:
  description: Whether the store has no finding.
  returned: with V(verify)
  type: bool
findings:
  description: What is damaged, lost, unnamed, unreadable, foreign, left over or open to others, each with C(kind), C(path) and C(said).
  returned: with V(verify), also when it fails
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import (
    bytecode,  # noqa: F401 - what is imported after it is kept compiled
    version_verbs,
)
from ..module_utils.machine_arguments import STATE
from ..module_utils.pdops_error import PdopsError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "verb": {"type": "str", "choices": list(version_verbs.VERBS), "default": "list"},
            "version": {"type": "str"},
            "before": {"type": "str", "default": "previous"},
            "after": {"type": "str", "default": "now"},
            "knob": {"type": "str"},
            "backups": {"type": "list", "elements": "str", "default": []},
            "keep": {"type": "int"},
            "older_than_s": {"type": "float"},
            "expect_sha256": {"type": "str"},
            "label": {"type": "str", "default": ""},
            "strict": {"type": "bool", "default": False},
            "actor": {"type": "str", "default": ""},
            "change_id": {"type": "str"},
            **STATE,
        },
        required_if=[
            *[("verb", verb, ("path",)) for verb in version_verbs.VERBS if verb != "verify"],
            ("verb", "show", ("version",)),
            ("verb", "restore", ("version",)),
            ("verb", "prune", ("keep", "older_than_s"), True),
        ],
        supports_check_mode=True,
    )
    try:
        result, warnings = version_verbs.run(module.params, module.check_mode)
    except PdopsError as error:
        details = dict(error.details)
        if not module._diff:
            details.pop("diff", None)
        module.fail_json(msg=str(error), **details)
    for warning in warnings:
        module.warn(warning)
    if module.params["verb"] == "restore" and not module._diff:
        result.pop("diff", None)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
