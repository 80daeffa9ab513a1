#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: serve_script
short_description: Put a managed serve script in place, rendered from a template
version_added: 0.1.0
description:
  - Renders a template on the controller and puts it in place of the script that starts a prefill, a decode or a router. The
    fixed part comes from the template and the variables of the instance. Between two marks stands the knob block, with one
    export a line.
  - The knob block is written by the same editor that M(pdops.sglang.serve_knob) uses, onto the block that the machine has.
    So comments, order and quotes of its lines stay, and setting a knob gives the same file as rendering with that knob.
  - Old and new content are stored under O(state_dir) before the script is replaced atomically. A symlink is followed,
    and owner and mode stay.
  - Refused is a script that bash cannot parse, that does not end in C(exec), or in which a secret stands. Keys go into a YAML
    file with mode 0600 on the machine (variable C(pd_engine_config), given to the engine as C(--config)). The router takes
    a key on the command line only (sglang-router 0.3.2), so no router with a key of its own can be rendered. It needs none, since it hands a
    client's key on to the engines, which check it.
  - With O(three_way) an edit on the machine is told from a change of the variables, and is not overwritten without O(take).
    Otherwise the machine gets what the variables say.
  - The running process is not touched.
  - The rendered script travels as a file, as parameters show with C(-vvv).
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
    description:
      - The serve script on the machine. A symlink is followed and stays one.
      - If empty, the instance's variable C(pd_serve_script).
    type: path
  instance:
    description:
      - The inventory host whose variables the template is rendered with. If empty, the host of the task.
      - Under C(delegate_to) the variables of a task are not those of the machine, so name the instance there.
    type: str
  template:
    description:
      - The template on the controller, looked for like those of M(ansible.builtin.template) and then in this collection.
      - If empty, C(serve_prefill.sh.j2), C(serve_decode.sh.j2) or C(serve_router.sh.j2), by the instance's role.
      - A template of your own can begin with C({% extends "serve_decode.sh.j2" %}) and replace the blocks C(about), C(before)
        (commands above the knobs) or C(command). It sees what to write in the variable C(pd_launch).
    type: str
  knobs:
    description:
      - All knobs of the script, names and values; a knob of the script that is not among them is taken out.
      - If not given, the instance's variables C(pd_pair_knobs) and C(pd_knobs) together.
    type: dict
  keep_block:
    description:
      - Keep the lines of the present knob block, with their comments and order, and edit only what differs.
      - V(false) writes the block anew.
    type: bool
    default: true
  expect_sha256:
    description:
      - Refuse when the script is not this content any more, and show what changed if the content is stored.
      - V(absent) refuses when there is a script.
    type: str
  three_way:
    description:
      - Compare each knob with its value at the last confirmed change. A knob that somebody changed on the machine since then is
        a conflict, unless the variables ask for the same value, and so is a line beside the knobs. Conflicts are refused, with who
        made the change.
      - A script that was not rendered so far is one conflict as a whole.
    type: bool
    default: false
  confirmed:
    description:
      - For O(three_way), the knobs at the last confirmed change, of the pair and the instance's own together.
      - If not given, no change is on record, and every difference is a conflict.
    type: dict
  confirmed_change:
    description: For O(three_way), the id of that change. By it the script of then is found under O(state_dir).
    type: str
  take:
    description:
      - Decides conflicts of O(three_way). V(host) keeps the knobs that the machine has, V(vars) overwrites them.
      - Lines beside the knobs cannot be kept, so with V(host) they are still refused.
    type: str
    choices: [host, vars]
  mode:
    description: Mode of the script in octal, quoted. If empty, the present one, or V(0750) for a script that is made new.
    type: str
  src:
    description: The rendered template on the machine. The action sets this; give O(template) instead.
    type: path
  secret_files:
    description: Files of keys that the script names, which must be their owner's alone. The action sets this from C(pd_engine_config).
    type: list
    elements: path
    default: []
  label:
    description: Label of the version that this makes.
    type: str
    default: rendered
  actor:
    description: Who does this, for the journal.
    type: str
    default: ""
  change_id:
    description: Id of the change to which this belongs, for the journal.
    type: str
notes:
  - "Variables of every instance: C(pd_url) gives address and port to listen on (C(pd_listen) another address; a
    router whose URL has a name listens on all, since it takes no name), C(pd_venv) the virtual environment to activate,
    C(pd_python) the interpreter (default C(python)), C(pd_offline) forbids downloads from the Hugging Face hub, and
    C(pd_arguments) holds further options by their long names. There V(true) is a bare flag, V(false) and null leave an option out, a
    list gives several words, and a mapping gives JSON."
  - "Variables of prefill and decode: C(pd_model_path), C(pd_gpus), C(pd_numa_node) (one node for all, or one for each GPU), C(pd_engine_config),
    C(pd_pair_arguments) and C(pd_pair_knobs) for what both have, C(pd_arguments) and C(pd_knobs) for what one has. A name in both
    with different values is refused, and so is an instance's own value of what must be equal in a pair: page size, KV cache
    dtype, transfer backend and others."
  - "C(pd_bootstrap_port) of the prefill (default 8998) is written into prefill, decode and router."
  - "The router's addresses of prefill and decode are those of the instances in its deployment's group. C(pd_metrics_url) gives address and
    port of its metrics, which are else bound to 127.0.0.1."
  - "The templates export C(SPT_NOENV=1), so that the environment of SGLang's schedulers stays readable, and C(CUDA_VISIBLE_DEVICES). They do not use
    C(--base-gpu-id), with which the list of C(--numa-node) would be indexed by GPUs that the process does not have."
seealso:
  - module: pdops.sglang.serve_knob
  - module: pdops.sglang.pd_info
"""

EXAMPLES = r"""
# group_vars/dsv4_instances.yml
# pd_deployment: dsv4
# pd_venv: /opt/sglang/venv
# pd_model_path: /models/DeepSeek-V4-Flash
# pd_engine_config: /etc/sglang/keys.yaml      # on the machine, mode 0600, for instance with: api-key: ...
# pd_pair_arguments:
#   disaggregation-transfer-backend: nixl
#   tp-size: 4
#   page-size: 64
#   kv-cache-dtype: fp8_e4m3
#   trust-remote-code: true
# pd_pair_knobs:
#   SGLANG_DSV4_KV_LAYOUT: packed
#   SGLANG_EXPOSE_OWN_ENV_VARS: 1

# host_vars/dsv4-prefill.yml
# pd_gpus: [0, 1, 2, 3]
# pd_numa_node: 0
# pd_arguments: {chunked-prefill-size: 8192, mem-fraction-static: 0.80}

- name: Write the serve script of the prefill (serve_prefill.sh.j2)
  pdops.sglang.serve_script:
    instance: dsv4-prefill
  delegate_to: dsv4-prefill

# host_vars/dsv4-decode.yml
# pd_gpus: [4, 5, 6, 7]
# pd_numa_node: 1
# pd_arguments: {max-running-requests: 96, mem-fraction-static: 0.85}
# pd_knobs:
#   SGLANG_SM120_MMA_TARGET_CTAS: 512

- name: Write the serve script of the decode (serve_decode.sh.j2), unless it is not what was looked at
  pdops.sglang.serve_script:
    instance: dsv4-decode
    expect_sha256: "{{ seen.sha256_before }}"
    label: deploy
  delegate_to: dsv4-decode

# host_vars/dsv4-router.yml
# pd_metrics_url: http://127.0.0.1:29000/metrics
# pd_listen: 0.0.0.0
# pd_arguments: {policy: cache_aware, health-check-interval-secs: 5}

- name: Write the serve script of the router (serve_router.sh.j2)
  pdops.sglang.serve_script:
    instance: dsv4-router
  delegate_to: dsv4-router

- name: The same, but leave alone what somebody edited on the machine since the last confirmed change
  pdops.sglang.serve_script:
    instance: dsv4-decode
    three_way: true
    confirmed: "{{ pair.knobs | combine(own.knobs) }}"
    confirmed_change: "{{ own.change_id }}"
    take: "{{ take | default(omit) }}"
  delegate_to: dsv4-decode
  vars:
    folder: "{{ inventory_dir }}.intended"
    pair: "{{ lookup('ansible.builtin.file', folder ~ '/dsv4.pair.json') | from_json }}"
    own: "{{ lookup('ansible.builtin.file', folder ~ '/dsv4-decode.json') | from_json }}"

# templates/serve_decode_numactl.sh.j2
# {% extends "serve_decode.sh.j2" %}
# {% block before %}
# ulimit -l unlimited
# {% endblock %}

- name: Write a serve script from a template of your own
  pdops.sglang.serve_script:
    instance: dsv4-decode
    template: serve_decode_numactl.sh.j2
  delegate_to: dsv4-decode
"""

RETURN = r"""
path:
  description: The script.
  returned: success
  type: str
knobs:
  description: Value of each knob that changes, before and after; null is not set, or not known without a run.
  returned: success
  type: dict
  sample: {SGLANG_SM120_MMA_TARGET_CTAS: {before: null, after: "512"}}
sha256_before:
  description: Identity of the old content, with which it can be restored; null when there was no script.
  returned: success
  type: str
sha256_after:
  description: Identity of the new content.
  returned: success
  type: str
mode:
  description: Mode of the script afterwards.
  returned: success
  type: str
  sample: "0750"
version_before:
  description: The stored version of the old content.
  returned: when the content of a script changed, except in check mode
  type: dict
  sample: {sha256: "8a1f0c...", label: before rendered, time: "2026-11-29T16:45:12Z"}
version_after:
  description: The stored version of the new content.
  returned: when the content changed, except in check mode
  type: dict
  sample: {sha256: "07ce53...", label: rendered, time: "2026-11-29T16:45:12Z"}
other_lines:
  description: Changed lines of a script that was there that are not those of the knobs in RV(knobs), secrets masked.
  returned: success
  type: list
  elements: dict
  sample: [{sign: "+", line: 20, text: "  --page-size 64 \\"}]
decisions:
  description: What the comparison found for each knob. Its act is C(none), C(apply), C(keep) or C(conflict).
  returned: with O(three_way), when there was a script; a refusal has the conflicts only, as C(conflicts)
  type: list
  elements: dict
  sample: [{name: SGLANG_LOG_MS, base: "1", host: "1", vars: null, act: apply, value: null, recorded: true, moved: null}]
write_down:
  description: Kept knobs that the variables do not have like this, so that the next run finds no difference; null is to be taken out.
  returned: with O(three_way), when there was a script
  type: dict
drift_lines:
  description: What changed in the script since O(expect_sha256), secrets masked.
  returned: when the script is not that content any more, and that content is stored
  type: list
  elements: dict
"""

from typing import Optional

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.knobs import MASK, check_value, is_secret, mask_text, refuse_secret
from ..module_utils.machine_arguments import STATE
from ..module_utils.managed.script_edit import Comparison, Placed, ScriptRequest, masked_diff, parse_mode, place
from ..module_utils.managed.three_way import to_write_down
from ..module_utils.pdops_error import PdopsError
from ..module_utils.store.atomic import read_regular
from ..module_utils.store.backups import MOST_BYTES
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


def checked_knobs(given: dict) -> dict:
    found = {}
    for name, value in given.items():
        refuse_secret(str(name))
        text = check_value(str(name), value)
        if text is not None:
            found[str(name)] = text
    return found


def comparison_of(given: dict) -> Optional[Comparison]:
    named = [name for name in ("confirmed", "confirmed_change", "take") if given[name] is not None]
    if not given["three_way"]:
        if named:
            raise PdopsError(f"{', '.join(named)}: these belong to three_way=true; set that, or leave them out.")
        return None
    confirmed = None if given["confirmed"] is None else checked_knobs(given["confirmed"])
    return Comparison(confirmed, given["confirmed_change"], given["take"])


def told(version: Version) -> dict:
    return {"sha256": version.sha256, "label": version.label, "time": version.time}


def result_of(done: Placed, diff: bool) -> dict:
    plan = done.plan
    result = {
        "changed": plan.changed,
        "path": plan.request.path,
        "knobs": plan.knobs,
        "sha256_before": plan.sha256_before,
        "sha256_after": plan.sha256_after,
        "mode": f"{plan.mode_after:04o}",
        "other_lines": list(plan.other_lines),
    }
    if done.version_before:
        result["version_before"] = told(done.version_before)
    if done.version_after:
        result["version_after"] = told(done.version_after)
    if plan.decisions:
        result["decisions"] = [row.as_dict() for row in plan.decisions]
        result["write_down"] = to_write_down(plan.decisions)
    if diff:
        result["diff"] = masked_diff(plan)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "instance": {"type": "str"},
            "template": {"type": "str"},
            "knobs": {"type": "dict"},
            "keep_block": {"type": "bool", "default": True},
            "expect_sha256": {"type": "str"},
            "three_way": {"type": "bool", "default": False},
            "confirmed": {"type": "dict"},
            "confirmed_change": {"type": "str"},
            "take": {"type": "str", "choices": ["host", "vars"]},
            "mode": {"type": "str"},
            "src": {"type": "path"},
            "secret_files": {"type": "list", "elements": "path", "default": [], "no_log": False},
            **STATE,
            "label": {"type": "str", "default": "rendered"},
            "actor": {"type": "str", "default": ""},
            "change_id": {"type": "str"},
        },
        supports_check_mode=True,
        # As in serve_knob: Ansible would write all parameters into the system's log before we can refuse a secret among them.
        no_log=True,
    )
    given = dict(module.params)
    for name in ("knobs", "confirmed"):
        module.params[name] = without_secrets(given[name] or {})
    try:
        if not given["path"] or not given["src"]:
            raise PdopsError("serve_script was called without its action; call it as pdops.sglang.serve_script.")
        request = ScriptRequest(
            path=given["path"],
            base=read_regular(given["src"], MOST_BYTES),
            knobs=checked_knobs(given["knobs"] or {}),
            keep_block=given["keep_block"],
            expect_sha256=given["expect_sha256"],
            mode=parse_mode(given["mode"]),
            secret_files=tuple(given["secret_files"]),
            comparison=comparison_of(given),
            label=given["label"],
            actor=given["actor"],
            change_id=given["change_id"],
        )
        done = place(request, Store(given["state_dir"]), module.check_mode)
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
