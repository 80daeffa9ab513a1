# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A module run in process, as Ansible would call it, for tests of what it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args


def answer_of(
    main: Callable[[], None], arguments: Mapping[str, Any], capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any], str]:
    """The exit status, the result, and all that was printed."""
    with patch_module_args(dict(arguments)), pytest.raises(SystemExit) as ended:
        main()
    text = capsys.readouterr().out
    answer = json.loads(text)
    assert isinstance(answer, dict) and isinstance(ended.value.code, int)
    return ended.value.code, answer, text
