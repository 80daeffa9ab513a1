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
      - Names of knobs, each with a value that is a string or an integer. YAML's bare C(yes) or C(1.5) are refused, quote them.
      - With O(state=present) a null value unsets the knob. With O(state=absent) values must be null.
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
      - For O(state=restored), the version to take, by the first 6 or more digits of its sha256, its label, or V(previous).
      - If neither this nor O(from_backup) is set, the newest version or else the newest backup is taken that has the named knobs
        otherwise than the script.
    type: str
  from_backup:
    description:
      - For O(state=restored), the backup to take, by its full path, or by the name or label of a file beside the script.
    type: str
  expect_only:
    description:
      - Refuse when anything but the lines of the named knobs would change, and show those lines.
    type: bool
    default: true
  expect_sha256:
    description: Refuse when the script is not this content any more.
    type: str
  state_dir:
    description: Folder on the machine in which pdops keeps versions and its journal.
    type: path
    default: /var/lib/pdops
  label:
    description: Label of the version that the edit makes.
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
  description: Value of each named or changed knob before and after, by its name.
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
source:
  description: What was restored.
  returned: with O(state=restored)
  type: dict
other_lines:
  description: Changed lines that are not those of the named knobs, secrets masked.
  returned: always, except when the input is refused
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.pdops_error import PdopsError
from ..module_utils.knob_edit import EditRequest, apply_edit, masked_diff, plan_edit
from ..module_utils.knobs import check_name, check_value, refuse_secret
from ..module_utils.store.store import Store


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "knobs": {"type": "dict", "default": {}},
            "state": {"type": "str", "choices": ["present", "absent", "restored"], "default": "present"},
            "from_version": {"type": "str"},
            "from_backup": {"type": "str"},
            "expect_only": {"type": "bool", "default": True},
            "expect_sha256": {"type": "str"},
            "state_dir": {"type": "path", "default": "/var/lib/pdops"},
            "label": {"type": "str", "default": ""},
            "actor": {"type": "str", "default": ""},
            "change_id": {"type": "str"},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        for name in given["knobs"]:
            try:
                refuse_secret(check_name(str(name)))
            except PdopsError:
                # The value of a refused name must not come back with the invocation.
                module.no_log_values.add(str(given["knobs"][name]))
                raise
        request = EditRequest(
            path=given["path"],
            knobs={str(name): check_value(str(name), value) for name, value in given["knobs"].items()},
            state=given["state"],
            from_version=given["from_version"],
            from_backup=given["from_backup"],
            expect_only=given["expect_only"],
            expect_sha256=given["expect_sha256"],
            label=given["label"],
            actor=given["actor"],
            change_id=given["change_id"],
        )
        store = Store(given["state_dir"])
        plan = plan_edit(request, store)
        if plan.changed and not module.check_mode:
            store.check_usable()
            apply_edit(plan, store)
    except PdopsError as error:
        if not module._diff:
            error.details.pop("diff", None)
        module.fail_json(msg=str(error), **error.details)
    for warning in plan.warnings:
        module.warn(warning)
    result = {
        "changed": plan.changed,
        "path": request.path,
        "knobs": plan.knobs,
        "sha256_before": plan.sha256_before,
        "sha256_after": plan.sha256_after,
        "other_lines": list(plan.other_lines),
    }
    if plan.source:
        result["source"] = plan.source
    if module._diff:
        result["diff"] = masked_diff(plan)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
