# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The choice between the service managers that run instances."""

from __future__ import annotations

from typing import Optional

from ..pdops_error import PdopsError
from .base import ServiceManager


def manager_for(name: str, supervisor_config: Optional[str] = None) -> ServiceManager:
    """The manager of this name, ready to be asked.

    :arg name: systemd or supervisor.
    :arg supervisor_config: path of supervisord.conf; None looks where Debian and PyPI put it.

    PdopsError when this machine does not have it.
    """
    # Each manager is imported only when it is used: a call of a module is short, and imports are most of it.
    if name == "systemd":
        from .systemd import Systemd, refuse_without_systemd

        refuse_without_systemd()
        return Systemd()
    if name == "supervisor":
        from .supervisor import Supervisor, read_settings

        return Supervisor(read_settings(supervisor_config))
    raise PdopsError(f"there is no service manager {name!r} in pdops: set pd_service_manager to systemd or supervisor")
