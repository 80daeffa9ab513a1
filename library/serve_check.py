#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: serve_check
short_description: Refuse a deployment that could not be deployed, before anything is written
version_added: 0.1.0
description:
  - Reads the C(pd_*) variables of all instances of the inventory on the controller, and refuses wrong values, and ports, GPUs, units, scripts, caches
    and key files that two instances of one machine would share, also instances of different deployments.
  - Reads the folders of wheels (C(pd_wheels)) on the controller.
  - Looks at no machine and writes nothing. Runs in its action plugin.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.looks
  - pdops.sglang.machine.controller
options:
  deployment:
    description: The deployment that is to be deployed.
    type: str
    required: true
notes:
  - "Variables of an instance, beside those of M(pdops.sglang.serve_script): C(pd_serve_root) (default C(/opt/pdops)) is the folder on the
    machine for everything that is made there. C(pd_wheels) is a folder of wheels on the controller, relative to the inventory's folder and outside
    of it; with it the virtual environment is C(<pd_serve_root>/venv-<key>), and C(pd_venv) must not be set.
    Without it C(pd_venv) or C(pd_python) names a virtual environment or an interpreter that is there. C(pd_wheels_install) lists what pip installs of it
    (default: everything), C(pd_base_python) is the Python that makes it (default C(/usr/bin/python3))."
  - "C(pd_cache_root) (default C(<pd_serve_root>/cache)) and C(pd_cache_version) (default: the key of the wheels): engines compile below
    C(<pd_cache_root>/<instance>/<pd_cache_version>), which scripts export as C(SGLANG_CACHE_DIR)."
  - "C(pd_key_files) lists files of keys, each with C(src) on the controller, outside of the inventory and perhaps vaulted,
    and C(dest) on the machine, where it gets mode 0600."
  - "C(pd_user) (default C(root)) runs the unit. C(pd_unit_numa) and C(pd_unit_cpus) pin it by the unit, C(pd_numactl) by the launch; not both.
    C(pd_longest_generation_s) (default 300), the drain and 75 s are C(TimeoutStopSec). C(pd_service_options) are further directives of C([Service])."
  - "C(pd_serve_template) and C(pd_unit_template) name templates of your own."
seealso:
  - module: pdops.sglang.serve_machine
"""

EXAMPLES = r"""
- name: Refuse what cannot work
  pdops.sglang.serve_check:
    deployment: dsv4
  register: checked
"""

RETURN = r"""
instances:
  description: By the instance's name, what its machine needs; for M(pdops.sglang.serve_machine) and M(pdops.sglang.pd_deploy).
  returned: success
  type: dict
notes:
  description: What could not be compared, as instances of other deployments whose variables are wrong.
  returned: success
  type: list
  elements: str
"""
