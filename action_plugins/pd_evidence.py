# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""As that of pd_info: runs the module of the same name, and names playbooks as this run's operator types them."""

from __future__ import annotations

from ansible_collections.pdops.sglang.plugins.action.pd_info import ActionModule

__all__ = ["ActionModule"]
