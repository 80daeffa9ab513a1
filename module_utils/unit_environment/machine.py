# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the readers of unit environments ask of the machine: systemctl, files, PID 1."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
import subprocess
from typing import Dict, List

from ..pdops_error import PdopsError
from ..processes import read_environ
from .dropins import dropins_of

MOST_BYTES = 1024 * 1024
ANSWER_S = 30.0
_MAGIC = re.compile(r"[*?\[]")


class Machine:
    """This machine."""

    def systemctl(self, *words: str) -> bytes:
        """The output of ``systemctl``; PdopsError when it refuses."""
        environ = {**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "", "SYSTEMD_URLIFY": "0"}
        try:
            done = subprocess.run(
                ("systemctl", "--no-pager", *words),
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=ANSWER_S,
                check=False,
            )
        except FileNotFoundError:
            raise PdopsError(
                "systemctl is not in PATH on this machine: install systemd or set pd_service_manager."
            ) from None
        except subprocess.TimeoutExpired:
            raise PdopsError(
                f"systemctl {words[0]} did not answer within {ANSWER_S:g} s: systemd on this machine hangs."
            ) from None
        if done.returncode != 0:
            said = " ".join(done.stderr.decode("utf-8", "replace").split())
            raise PdopsError(f"systemctl {words[0]} was refused: {said or 'no reason given'}")
        return done.stdout

    def read(self, path: str) -> bytes:
        """A whole regular file; OSError when that cannot be had."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, "a folder", path)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "no regular file", path)
            if status.st_size > MOST_BYTES:
                raise OSError(errno.EFBIG, f"more than {MOST_BYTES} bytes", path)
            return file.read(MOST_BYTES)

    def matches(self, pattern: str) -> List[str]:
        """Files that glob(7) finds, in its order; OSError when the folder may not be read."""
        found = sorted(glob.glob(pattern))
        if not found:
            folder = os.path.dirname(pattern[: _MAGIC.search(pattern).start()])  # type: ignore[union-attr]
            if os.path.isdir(folder):
                os.listdir(folder)
        return found

    def dropins(self, unit: str) -> List[str]:
        """The drop-ins that systemd would load now, in order."""
        return dropins_of(unit)

    def manager_environ(self) -> Dict[str, str]:
        """The environment that PID 1 itself was started with; OSError when it may not be read."""
        environ = read_environ(1)
        if not environ.whole:
            raise PermissionError(environ.why)
        return dict(environ.values)


def is_pattern(path: str) -> bool:
    return _MAGIC.search(path) is not None
