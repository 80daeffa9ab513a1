# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Where the record of a project is when nobody says so."""

from __future__ import annotations

import os
from typing import Optional

DEFAULT = "evidence"


def evidence_folder(given: Optional[str], config_file: Optional[str], here: str) -> str:
    """An absolute path.

    :param given: ``pd_evidence_dir``; relative to where the operator stands
    :param config_file: the ``ansible.cfg`` in use. Its folder is the operator's project, wherever the command is typed; one that
        belongs to the system or to a user's home is nobody's project, and then the record is where the operator stands
    """
    if given:
        return os.path.normpath(os.path.join(here, os.path.expanduser(given)))
    if config_file and os.path.basename(config_file) == "ansible.cfg":
        folder = os.path.dirname(os.path.abspath(config_file))
        if folder not in ("/etc/ansible", os.path.expanduser("~"), "/"):
            return os.path.join(folder, DEFAULT)
    return os.path.join(here, DEFAULT)
