# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Makes a script that is not there yet: whole and durable, or not at all, and never over another one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Optional

from ..pdops_error import PdopsError
from ..store.atomic import MARK, sync_folder, why, write_private
from ..store.obstacles import is_read_only, is_writable


def check_creatable(path: str) -> None:
    """Refuse, before any effect, what :func:`create_file` could not do."""
    folder = os.path.dirname(path)
    if os.path.lexists(path):
        raise PdopsError(f"{path} is a link that leads nowhere, or came up in this moment; look at it, then run again.")
    if not os.path.isdir(folder):
        raise PdopsError(f"{path} cannot be made, since there is no folder {folder}; make it first.")
    if not is_writable(folder):
        if is_read_only(folder):
            raise PdopsError(
                f"{path} cannot be made, since the file system of {folder} is read-only; remount it writable."
            )
        raise PdopsError(
            f"{path} cannot be made, since this user may not write in {folder}; run with become or as its owner."
        )


def create_file(path: str, content: bytes, mode: int, owner: Optional[Sequence[int]] = None) -> None:
    """Make ``path`` with exactly ``mode``, owned by this user, or by ``owner`` (uid and gid), which only root can give.

    :raises PdopsError: it is there already, or cannot be made; nothing is left behind
    """
    folder, name = os.path.split(path)
    # Named as store.atomic names its own, so that what a crash leaves is known for what it is.
    marked = os.fsdecode(os.fsencode(name)[:200])
    temporary = os.path.join(folder, f"{MARK}{marked}-{secrets.token_hex(6)}")
    try:
        try:
            write_private(temporary, content)
        except PdopsError as error:
            raise PdopsError(str(error).replace(temporary, path), **error.details) from None
        os.chmod(temporary, mode)
        if owner is not None and os.geteuid() == 0:
            os.chown(temporary, owner[0], owner[1])
        # Not link(2), which cannot overwrite: a crash would leave two names, and files with two are not replaced.
        if os.path.lexists(path):
            raise PdopsError(f"{path} was made by somebody else in this moment; look at it, then run again.")
        os.rename(temporary, path)
    except OSError as error:
        raise PdopsError(f"{path} could not be made: {why(error)}.") from None
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    try:
        sync_folder(folder)
    except OSError as error:
        raise PdopsError(
            f"{path} is there, but whether that survives a loss of power is unknown: {why(error)}.", replaced=True
        ) from None
