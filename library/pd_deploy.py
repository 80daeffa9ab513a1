#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_deploy
short_description: Work out, or store, what a deploy writes on one machine
version_added: 0.1.0
description:
  - The action renders the scripts and units of the machine's instances on the controller and sends them as files, with their files of keys.
    On the machine they are compared with what is there, and with the values of the last confirmed change.
  - What files of keys hold is shown nowhere; of a difference is said only that there is one.
  - With O(phase=look) nothing is written; the answer is that of M(pdops.sglang.pd_info) with what would be written, or why it is refused.
  - With O(phase=stage) the contents are stored below O(state_dir), by their sha256, where M(pdops.sglang.pd_change) finds them.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine
  - pdops.sglang.machine.everyone
attributes:
  check_mode:
    description: Looks as otherwise, and stores nothing.
    support: full
  diff_mode:
    description: Returns differences as data, never as a diff.
    support: none
options:
  phase:
    description: Whether to look, or to store what the plan showed.
    type: str
    choices: [look, stage]
    default: look
  settings:
    description: What RV(pdops.sglang.serve_check#module:instances) says; used by the action.
    type: dict
  intended_dir:
    description: The folder on the controller with the values of the last confirmed change; used by the action.
    type: path
  asked:
    description: What narrows the verb; of it V(scope), V(overlap) and V(take) are of use here.
    type: dict
    default: {}
  edits:
    description: For O(phase=stage), the plan's edits on this machine.
    type: list
    elements: dict
    default: []
  items:
    description: What was rendered; the action sets this.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: See what a deploy would write
  pdops.sglang.pd_deploy:
    instances: "{{ machines['gpu1'].instances }}"
    settings: "{{ checked.instances }}"
    intended_dir: "{{ inventory_dir }}.intended"
  delegate_to: dsv4-decode
"""

RETURN = r"""
instances:
  description: As M(pdops.sglang.pd_info) has it; an instance that is not there yet has an C(error).
  returned: with O(phase=look)
  type: dict
open_change:
  description: As M(pdops.sglang.pd_info) has it; so are RV(timings), RV(undo), RV(unreported) and RV(ended).
  returned: with O(phase=look)
  type: dict
timings:
  description: See RV(open_change).
  returned: with O(phase=look)
  type: list
undo:
  description: See RV(open_change).
  returned: with O(phase=look)
  type: dict
unreported:
  description: See RV(open_change).
  returned: with O(phase=look)
  type: list
ended:
  description: See RV(open_change).
  returned: with O(phase=look)
  type: list
deploy:
  description:
    - By instance, C(edits) with their differences, C(intended) (the knobs that the script has then), C(write_down) (kept values that the variables
      do not have), and C(refused) when it may not be written.
  returned: with O(phase=look)
  type: dict
obstacles:
  description: What the state folder has against it; a plan tells it with what instances have.
  returned: with O(phase=look)
  type: list
  elements: str
stored:
  description: The sha256 of each content that was stored.
  returned: with O(phase=stage)
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.asked import read_asked
from ..module_utils.change.book import Book
from ..module_utils.deployment import instance_from_dict
from ..module_utils.machine_arguments import EVERYONE, MACHINE
from ..module_utils.managed.comparing import Comparison
from ..module_utils.managed.script_edit import parse_mode
from ..module_utils.mistakes import Mistakes
from ..module_utils.observe import observe
from ..module_utils.pdops_error import PdopsError
from ..module_utils.serving.edits import Item, Key, offer, stage
from ..module_utils.serving.last_confirmed import caught_up, moves_of
from ..module_utils.serving.machine import MOST_KEY_BYTES
from ..module_utils.store.atomic import read_regular
from ..module_utils.store.backups import MOST_BYTES
from ..module_utils.store.store import Store


def item_of(given, instances, take, store):
    instance = next(one for one in instances if one.name == given["instance"])
    confirmed, change_id = given.get("confirmed"), given.get("confirmed_change")
    # The controller may have died before it wrote down what was confirmed, or its files are of another checkout.
    last = caught_up(moves_of(Book(store), instance), confirmed, change_id)
    if last is not None:
        confirmed, change_id = last.knobs, last.change_id
    return Item(
        instance=instance,
        script=read_regular(given["script"], MOST_BYTES),
        knobs={str(name): str(value) for name, value in given["knobs"].items()},
        comparison=Comparison(confirmed, change_id, take),
        secret_files=tuple(given["secret_files"]),
        unit=read_regular(given["unit"], MOST_BYTES) if given.get("unit") else None,
        unit_path=given.get("unit_path"),
        mode=parse_mode(given["mode"]),
        keys=tuple(
            Key(str(key["path"]), str(key["user"]), read_regular(key["src"], MOST_KEY_BYTES)) for key in given["keys"]
        ),
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["look", "stage"], "default": "look"},
            **MACHINE,
            "settings": {"type": "dict"},
            "intended_dir": {"type": "path"},
            "asked": {"type": "dict", "default": {}},
            **EVERYONE,
            "edits": {"type": "list", "elements": "dict", "default": []},
            "items": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    given = module.params
    if not given["items"]:
        module.fail_json(msg="pd_deploy was called without its action; call it as pdops.sglang.pd_deploy.")
    try:
        instances = [instance_from_dict(item) for item in given["instances"]]
        everyone = [instance_from_dict(item) for item in given["all_instances"]] or instances
        asked = read_asked("deploy", given["asked"], everyone)
        store = Store(given["state_dir"])
        wrong = Mistakes("obstacles on the machine")
        wrong.take(store.check_usable, None)
        if given["phase"] == "stage":
            wrong.refuse()
        items = [item_of(item, instances, asked.take, store) for item in given["items"]]
        seen = observe(instances, asked, given["state_dir"])
        offers = {
            item.instance.name: offer(item, store, existed="unit" in seen["instances"][item.instance.name])
            for item in items
        }
        if given["phase"] == "stage":
            wanted = {edit["path"]: edit["sha256_after"] for edit in given["edits"]}
            if module.check_mode:
                module.exit_json(changed=False, stored=[])
            module.exit_json(changed=False, stored=stage(offers, wanted, store))
        module.exit_json(
            changed=False,
            **seen,
            deploy={name: one.as_dict() for name, one in offers.items()},
            obstacles=wrong.said,
        )
    except PdopsError as error:
        module.fail_json(msg=str(error), **error.details)


if __name__ == "__main__":
    main()
