#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: serve_knob
short_description: Set, unset or restore knobs in one serve script
version_added: 0.1.0
description:
  - Edits the C(export) of a knob in the shell script that starts an engine, and leaves every other byte as it is.
    What bash would make of the script decides; what is not understood is refused, naming the line, and not touched.
  - Old and new content are stored under O(state_dir) before the script is replaced atomically, so every former version
    stays retrievable.
  - The running process is not touched. To bring a knob into effect with a restart, gates and a way back, use the
    playbooks C(set_knob.yml), C(restore_knob.yml) and C(revert_knob.yml).
  - Knobs with secret-looking names are refused, and their values are masked wherever the script is shown.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.state
attributes:
  check_mode:
    description: Everything is worked out and checked, nothing is written.
    support: full
  diff_mode:
    description: Shows the difference with the values of secrets masked on both sides.
    support: full
options:
  path:
    description: The serve script. A symlink is followed and stays one.
    type: path
    required: true
  knobs:
    description:
      - Names of knobs, each with a value that is a string or an integer. YAML's bare V(yes) or V(1.5) are refused, quote them.
        YAML makes V(8) of a bare V(010) before anybody sees it, so quote that too.
      - With O(state=present) an empty text makes the knob empty, as C(export NAME=), and a null value unsets it.
        With O(state=absent) values must be null or empty.
      - With O(state=restored) a null value means whatever the source has; another value must be the one that the source has.
    type: dict
    default: {}
  state:
    description:
      - V(present) sets the knobs.
      - V(absent) unsets them.
      - V(restored) takes the content of a stored version or of a backup.
    type: str
    choices: [present, absent, restored]
    default: present
  from_version:
    description:
      - For O(state=restored), the version to take, by its label, the first 6 or more digits of its sha256, or V(previous),
        which is the newest stored content before the one that the script has now.
      - If neither this nor O(from_backup) is set, the newest stored version, or else the newest backup beside the script, is taken
        that has the named knobs. If the script has them with the same values, there is nothing to do.
    type: str
  from_backup:
    description:
      - For O(state=restored), the backup to take, by its full path, or by the name or label of a file beside the script,
        as V(serve_decode.sh.pretgt_revert_2025.bak) or V(pretgt_revert_2025).
    type: str
  expect_only:
    description:
      - Refuse when anything but the named knobs would change, and show the other lines.
      - V(false) takes the whole content of a version or backup with O(state=restored).
    type: bool
    default: true
  lines_only:
    description:
      - For O(state=restored), take only the named knobs out of the version or backup, as they are written there with the comment
        behind them, and leave all else. This also brings back a value that only a run tells, as V($(nproc\)).
      - A knob that a source named by O(from_version) or O(from_backup) does not have is unset.
    type: bool
    default: false
  expect_sha256:
    description: Refuse when the script is not this content any more, and show what changed if the content is stored.
    type: str
  label:
    description: Label of the version that the edit makes. If empty, it tells the edit.
    type: str
    default: ""
  actor:
    description: Who does this, for the journal.
    type: str
    default: ""
  change_id:
    description: Id of the change to which the edit belongs, for the journal.
    type: str
seealso:
  - module: pdops.sglang.pd_info
"""

EXAMPLES = r"""
- name: Set the target of the split-K decode kernel
  pdops.sglang.serve_knob:
    path: /root/serve_dsv4_decode.sh
    knobs:
      SGLANG_SM120_MMA_TARGET_CTAS: 512

- name: Take it off again
  pdops.sglang.serve_knob:
    path: /root/serve_dsv4_decode.sh
    knobs:
      SGLANG_SM120_MMA_TARGET_CTAS:
    state: absent

- name: Bring the line back that a hurried revert removed, and nothing else
  pdops.sglang.serve_knob:
    path: /root/serve_dsv4_decode.sh
    knobs:
      SGLANG_SM120_MMA_TARGET_CTAS:
    state: restored
    from_backup: pretgt_revert_2025
"""

RETURN = r"""
path:
  description: The script.
  returned: success
  type: str
knobs:
  description: Value of each named knob, and of every other one that changes, before and after; null is not set, or not known without a run.
  returned: success
  type: dict
  sample: {SGLANG_SM120_MMA_TARGET_CTAS: {before: null, after: "512"}}
sha256_before:
  description: Identity of the old content, with which it can be restored.
  returned: success
  type: str
sha256_after:
  description: Identity of the new content.
  returned: success
  type: str
version_before:
  description: The stored version of the old content.
  returned: changed, except in check mode
  type: dict
  sample: {sha256: "8a1f0c...", label: before present SGLANG_SM120_MMA_TARGET_CTAS, time: "2026-11-29T16:45:12Z"}
version_after:
  description: The stored version of the new content.
  returned: changed, except in check mode
  type: dict
  sample: {sha256: "07ce53...", label: present SGLANG_SM120_MMA_TARGET_CTAS, time: "2026-11-29T16:45:12Z"}
source:
  description: What was restored. Its kind is C(version), C(backup), or C(none) when the script has it already.
  returned: with O(state=restored)
  type: dict
  sample: {kind: backup, name: /root/serve_decode.sh.old.bak, label: old, time: "2025-11-01T10:11:12Z", told: backup serve_decode.sh.old.bak}
other_lines:
  description: Changed lines that are not those of the named knobs, secrets masked. A refusal shows them too.
  returned: always, except when the input is refused
  type: list
  elements: dict
  sample: [{sign: "-", line: 10, text: "export SGLANG_LOG_MS=1"}]
drift_lines:
  description: What changed in the script since O(expect_sha256), secrets masked.
  returned: when the script is not that content any more, and that content is stored
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.knob_edit import Applied, EditRequest, edit, masked_diff
from ..module_utils.knobs import MASK, check_value, is_secret, mask_text
from ..module_utils.machine_arguments import STATE
from ..module_utils.pdops_error import PdopsError
from ..module_utils.store.store import Store, Version


def without_secrets(given: dict) -> dict:
    """The knobs as the invocation may show them: it comes back with every result and is printed with -vvv."""
    return {
        name: MASK
        if value is not None and is_secret(str(name))
        else mask_text(value)
        if isinstance(value, str)
        else value
        for name, value in given.items()
    }


def told(version: Version) -> dict:
    return {"sha256": version.sha256, "label": version.label, "time": version.time}


def result_of(done: Applied, diff: bool) -> dict:
    plan = done.plan
    result = {
        "changed": plan.changed,
        "path": plan.request.path,
        "knobs": plan.knobs,
        "sha256_before": plan.sha256_before,
        "sha256_after": plan.sha256_after,
        "other_lines": list(plan.other_lines),
    }
    if plan.source:
        result["source"] = plan.source
    if done.version_before and done.version_after:
        result.update(version_before=told(done.version_before), version_after=told(done.version_after))
    if diff:
        result["diff"] = masked_diff(plan)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "knobs": {"type": "dict", "default": {}},
            "state": {"type": "str", "choices": ["present", "absent", "restored"], "default": "present"},
            "from_version": {"type": "str"},
            "from_backup": {"type": "str"},
            "expect_only": {"type": "bool", "default": True},
            "lines_only": {"type": "bool", "default": False},
            "expect_sha256": {"type": "str"},
            **STATE,
            "label": {"type": "str", "default": ""},
            "actor": {"type": "str", "default": ""},
            "change_id": {"type": "str"},
        },
        supports_check_mode=True,
        # Ansible would write all parameters into the system's log before we can refuse a secret among them; what is done
        # stands in the journal of pdops. (no_log on the option would blot out every equal string in the result.)
        no_log=True,
    )
    given = dict(module.params)
    module.params["knobs"] = without_secrets(given["knobs"])
    try:
        request = EditRequest(
            path=given["path"],
            knobs={
                str(name): None if value is not None and is_secret(str(name)) else check_value(str(name), value)
                for name, value in given["knobs"].items()
            },
            state=given["state"],
            from_version=given["from_version"],
            from_backup=given["from_backup"],
            expect_only=given["expect_only"],
            lines_only=given["lines_only"],
            expect_sha256=given["expect_sha256"],
            label=given["label"],
            actor=given["actor"],
            change_id=given["change_id"],
        )
        done = edit(request, Store(given["state_dir"]), module.check_mode)
    except PdopsError as error:
        details = dict(error.details)
        if not module._diff:
            details.pop("diff", None)
        module.fail_json(msg=str(error), **details)
    for warning in (*done.plan.warnings, *done.warnings):
        module.warn(warning)
    module.exit_json(**result_of(done, module._diff))


if __name__ == "__main__":
    main()
