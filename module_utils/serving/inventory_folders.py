# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What lies on the controller in the folder of an inventory: Ansible reads every file there as an inventory.

A key becomes the name of a host and is shown by whatever lists hosts; a wheel is read as a whole at every command (ansible-core 2.21,
``InventoryManager.parse_source``). Left out are hidden files, ``group_vars``, ``host_vars`` and ``vars_plugins``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..pdops_error import PdopsError

_NOT_READ = ("group_vars", "host_vars", "vars_plugins")


def inventory_folders(sources: Iterable[object]) -> tuple[str, ...]:
    """Those of the inventory's sources that are folders; a source may also be a file, or a list of hosts."""
    return tuple(os.path.realpath(str(source)) for source in sources if os.path.isdir(str(source)))


def refuse_inside(what: str, path: str, folders: Iterable[str]) -> None:
    """Refuse a path on the controller that Ansible would read as an inventory.

    :param what: for the sentence, as ``dsv4-decode: pd_wheels``
    :raises PdopsError: with where to put it instead
    """
    real = os.path.realpath(path)
    for folder in folders:
        if os.path.commonpath([real, folder]) != folder:
            continue
        inside = os.path.relpath(real, folder).split(os.sep)
        if any(part in _NOT_READ or (part.startswith(".") and part != ".") for part in inside):
            continue
        raise PdopsError(
            f"{what} is {path}, inside the inventory {folder}, where Ansible reads every file as an inventory (a key becomes the name of a "
            f"host); put it beside that folder, as in ../{os.path.basename(real)}."
        )
