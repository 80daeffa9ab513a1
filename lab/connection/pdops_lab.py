# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The connection to a machine of a lab: this host, for as long as nobody cuts it (`python -m lab cut`)."""

from __future__ import annotations

DOCUMENTATION = r"""
name: pdops_lab
short_description: Reach a machine of an embedded lab
description:
  - Works like P(ansible.builtin.local#connection), but fails as a lost connection while the file O(cut) is there. A module that
    runs at that moment comes to its end; only its answer is lost, as with ssh.
author:
  - the pdops authors (@pdops)
version_added: 0.1.0
extends_documentation_fragment:
  - connection_pipelining
options:
  cut:
    description: The file.
    type: path
    vars:
      - name: pdops_lab_cut
  become_success_timeout:
    description: Seconds that a change of the user may take.
    type: int
    default: 10
  become_strip_preamble:
    description: Whether what a change of the user prints is left out.
    type: bool
    default: true
"""

import os
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import local


class Connection(local.Connection):
    transport = "pdops_lab"

    def _refuse(self) -> None:
        path = self.get_option("cut")
        if path and os.path.exists(path):
            raise AnsibleConnectionFailure(f"machine {os.path.basename(path)} is cut off (python -m lab cut)")

    def exec_command(self, *given: Any, **named: Any) -> Any:
        self._refuse()
        done = super().exec_command(*given, **named)
        self._refuse()
        return done

    def put_file(self, *given: Any, **named: Any) -> None:
        self._refuse()
        super().put_file(*given, **named)

    def fetch_file(self, *given: Any, **named: Any) -> None:
        self._refuse()
        super().fetch_file(*given, **named)
