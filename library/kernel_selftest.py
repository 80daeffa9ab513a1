#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_selftest
short_description: Prove a kernel package on its machine, by the Python that will serve it
version_added: 0.1.0
description:
  - With O(phase=look) says which Python an instance serves with, and by which knobs its script would select the package; nothing
    is written, and the package need not be installed.
  - With O(phase=test) runs the self-test of the installed package before anything restarts. With a GPU that is its numerics and a
    micro-benchmark against the machine's own history; without one the import, the plan and the compile gate for O(arch).
  - With O(phase=prepare) fills the instance's folder of compiled kernels, and makes the folder of the plugin's records.
  - What was compiled or made, and what does not hold, is written into the journal of the machine.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.state
attributes:
  check_mode:
    description: O(phase=look) runs just the same; the others do nothing.
    support: full
  diff_mode:
    description: Nothing that has a difference is written.
    support: none
options:
  phase:
    description: What is to be done.
    type: str
    choices: [look, test, prepare]
    default: look
  instance:
    description: The instance, as the filter P(pdops.sglang.instances#filter) returns it.
    type: dict
    required: true
  package:
    description: RV(pdops.sglang.kernel_package#module:package).
    type: dict
    required: true
  root:
    description: Folder of kernel packages; see M(pdops.sglang.kernel_package).
    type: path
    default: /opt/pdops/kernels
  cache_root:
    description: Local folder below which each instance has its compiled kernels, C(<instance>/triton/<name>). The name changes with
      whatever would make Triton compile anew.
    type: path
    default: /opt/pdops/cache
  status_root:
    description: Folder below which the plugin writes what became of it, one folder for each instance.
    type: path
    default: /opt/pdops/run/kernels
  arch:
    description: Compute capability of the GPUs that serve, without its point.
    type: int
    required: true
  checks:
    description:
      - Checks to run, in this order. V(device) and V(bench) are skipped where the Python sees no GPU.
      - A Python without Triton, that of a simulated engine, can only do V(import) and V(plan).
    type: list
    elements: str
    choices: [import, plan, compile, device, bench]
    default: [import, plan, compile, device, bench]
  python:
    description: The Python that serves. If not set, that of the serve script, or of the running process.
    type: path
  user:
    description: Whom the folders of the instance belong to, when no process of it runs.
    type: str
  knobs:
    description: Further knobs that the script gets with the package. A null value unsets one.
    type: dict
    default: {}
  heads:
    description: Numbers of query heads to compile for. SGLang pads 16 heads of a rank to 64 in small batches, so both are served.
    type: list
    elements: int
    default: [16, 64]
  bench_band:
    description: How many times the best former time on this machine is still good.
    type: float
    default: 1.25
  actor:
    description: Who does this, for the journal. The action sets this.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Prove the kernels before anything restarts
  pdops.sglang.kernel_selftest:
    phase: test
    instance: "{{ decode }}"
    package: "{{ installed.package }}"
    arch: 120
  delegate_to: dsv4-decode
"""

RETURN = r"""
aim:
  description:
    - C(python) (path and versions), C(folder) of the package, C(cache) and C(status) of the instance, C(knobs) that its script is to
      have, and C(selected_now), the folder that it selects now.
  returned: success
  type: dict
rows:
  description: The checks, each with C(check), C(result) (V(passed), V(failed), V(skipped)), C(said) and C(seconds).
  returned: with O(phase=test)
  type: list
  elements: dict
compiled:
  description: How many kernels had to be compiled.
  returned: with O(phase=prepare)
  type: int
cached:
  description: How many kernels were there already.
  returned: with O(phase=prepare)
  type: int
name:
  description: Name of O(instance).
  returned: through the action plugin
  type: str
lines:
  description: What was done, as it is printed.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.deployment import instance_from_dict
from ..module_utils.kernel_package.aiming import aim, asked_from, check_room
from ..module_utils.kernel_package.checks import CHECKS, FAILED, Bench, SelfTest
from ..module_utils.kernel_package.prewarming import make_status_folder, prewarm
from ..module_utils.machine_arguments import STATE
from ..module_utils.pdops_error import PdopsError
from ..module_utils.store.doing import note
from ..module_utils.store.store import Store


def journal(module, **row):
    given = module.params
    line = {"verb": "kernel_selftest", "state": given["phase"], "instance": given["instance"].get("name"), **row}
    try:
        note(Store(given["state_dir"]), {**line, "package": given["package"].get("folder"), "actor": given["actor"]})
    except PdopsError as error:
        module.warn(f"kernel_selftest: {row['step']}, which the journal lacks: {error}")


def run_test(module, name, found, asked):
    given = module.params
    bench = Bench(given["state_dir"], given["bench_band"])
    test = SelfTest(found.told.path, asked.package, found.folder, found.environment, asked.arch, bench)
    rows = [row.as_dict() for row in test.run(given["checks"])]
    lines = [f"{row['check']:<8} {row['result']} in {row['seconds']:.1f} s: {row['said']}" for row in rows]
    bad = next((row for row in rows if row["result"] == FAILED), None)
    if bad:
        journal(module, step="failed", said=f"check {bad['check']}: {bad['said']}")
        module.fail_json(
            msg=f"{name}: the kernels failed their self-test, check {bad['check']}: {bad['said']}; no script and no process was touched.",
            rows=rows,
            lines=lines,
        )
    return {"changed": False, "rows": rows, "lines": lines}


def run_prepare(module, found, asked):
    given = module.params
    changed = make_status_folder(found.status, found.owner)
    if not asked.compiles:
        lines = ["nothing is compiled ahead: pd_kernel_checks leaves that out"]
        if changed:
            journal(module, step="done", path=found.status)
        return {"changed": changed, "compiled": 0, "cached": 0, "lines": lines}
    sha256 = str(asked.package["sha256"])
    try:
        warmed = prewarm(found.told, sha256, found.environment, found.cache, asked.arch, given["heads"], found.owner)
    except PdopsError as error:
        journal(module, step="failed", path=found.cache, said=str(error))
        raise
    if changed or warmed.compiled:
        journal(module, step="done", path=found.cache, compiled=warmed.compiled)
    noted = ", as the last compile left them" if warmed.noted else ""
    lines = [f"{warmed.cache}: {warmed.compiled} kernels compiled, {warmed.cached} were there{noted}"]
    return {
        "changed": changed or warmed.compiled > 0,
        "compiled": warmed.compiled,
        "cached": warmed.cached,
        "lines": lines,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["look", "test", "prepare"], "default": "look"},
            "instance": {"type": "dict", "required": True},
            "package": {"type": "dict", "required": True},
            "root": {"type": "path", "default": "/opt/pdops/kernels"},
            "cache_root": {"type": "path", "default": "/opt/pdops/cache"},
            "status_root": {"type": "path", "default": "/opt/pdops/run/kernels"},
            "arch": {"type": "int", "required": True},
            "checks": {"type": "list", "elements": "str", "choices": list(CHECKS), "default": list(CHECKS)},
            "python": {"type": "path"},
            "user": {"type": "str"},
            "knobs": {"type": "dict", "default": {}},
            "heads": {"type": "list", "elements": "int", "default": [16, 64]},
            "bench_band": {"type": "float", "default": 1.25},
            "actor": {"type": "str", "default": ""},
            **STATE,
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        instance = instance_from_dict(given["instance"])
        asked = asked_from(instance, given, given["checks"])
        found = aim(asked)
        if given["phase"] == "look":
            check_room(asked, found)
        answer = {"changed": False, "lines": []}
        if given["phase"] == "test" and not module.check_mode:
            answer = run_test(module, instance.name, found, asked)
        elif given["phase"] == "prepare" and not module.check_mode:
            answer = run_prepare(module, found, asked)
        module.exit_json(aim=found.as_dict(), **answer)
    except PdopsError as error:
        module.fail_json(msg=str(error), **error.details)


if __name__ == "__main__":
    main()
