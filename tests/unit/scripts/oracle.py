# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""bash as the oracle: what would the serving process have seen?

As cases/README.md says: a folder first on PATH whose python, python3 and so on leave their environment in a
file, the file of each ``source`` replaced by an empty one, a scratch folder, a clean environment, a timeout.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Optional

# Programs that stand for an engine: they leave their environment and end.
_ENGINES = (
    "python",
    "python3",
    "python3.11",
    "python3.12",
    "vllm",
    "sglang",
    "torchrun",
    "sglang-router",
    "uv",
    "docker",
)
# Programs that only pass on: skip their options, run the rest.
_PASSING = ("numactl",)
# Programs that must do nothing here.
_QUIET = ("nvidia-smi", "curl", "pkill", "sleep", "ip", "sysctl", "ray", "conda", "pip", "ulimit")
# What bash itself puts into an environment.
_BASE = frozenset((b"PATH", b"HOME", b"PWD", b"OLDPWD", b"SHLVL", b"_", b"COPROC_PID"))
_SOURCE = re.compile(rb"(?m)((?:^|[;&|({]|\bthen|\bdo)[ \t]*(?:source|\.)[ \t]+)(\"[^\"\n]*\"|[^\s;&|#]+)")
_CLOCK = re.compile(rb"\bdate\b|EPOCH|SECONDS")


class Bash:
    """A scratch folder in which scripts are run."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pdops-oracle-")
        self.root = self._folder.name
        self.seen = os.path.join(self.root, "seen")
        bin_folder = os.path.join(self.root, "bin")
        os.mkdir(bin_folder)
        engine = (
            '#!/bin/sh\ncase "$1 $*" in -c*) ;; *launch_server*|*router*|*" serve "*|*api_server*|*sglang.srt*) '
            f"exec /usr/bin/env -0 > '{self.seen}'/$$;; esac\n"
        )
        passing = '#!/bin/sh\nwhile [ $# -gt 0 ]; do case "$1" in -*) shift;; *) break;; esac; done\nexec "$@"\n'
        for names, text in ((_ENGINES, engine), (_PASSING, passing), (_QUIET, "#!/bin/sh\nexit 0\n")):
            for name in names:
                path = os.path.join(bin_folder, name)
                with open(path, "w") as file:
                    file.write(text)
                os.chmod(path, 0o755)
        self.path = f"{bin_folder}:/usr/bin:/bin"
        self._known: dict[object, Optional[dict[str, str]]] = {}
        os.mkdir(self.seen)
        os.mkdir(os.path.join(self.root, "work"))

    def close(self) -> None:
        self._folder.cleanup()

    def environment(
        self, script: bytes, caller: Optional[Mapping[str, str]] = None, arguments: tuple[str, ...] = ()
    ) -> Optional[dict[str, str]]:
        """What the engine sees beyond what bash itself sets; None when no engine was started.

        The same script for the same caller is run once, as each edit of a script is held against the script itself;
        but not one that asks the clock, whose next minute would otherwise be held against a former one.
        """
        if _CLOCK.search(script):
            return self._run(script, caller or {}, arguments)
        asked = (script, tuple(sorted((caller or {}).items())), arguments)
        if asked not in self._known:
            self._known[asked] = self._run(script, caller or {}, arguments)
        known = self._known[asked]
        return None if known is None else dict(known)

    def _run(self, script: bytes, caller: Mapping[str, str], arguments: tuple[str, ...]) -> Optional[dict[str, str]]:
        work = os.path.join(self.root, "work")
        if os.listdir(work):  # a file left by an earlier script may match a pattern of this one
            shutil.rmtree(work)
            os.mkdir(work)
        path = os.path.join(self.root, "script.sh")
        with open(path, "wb") as file:
            file.write(_SOURCE.sub(rb"\1/dev/null", script))
        for name in os.listdir(self.seen):
            os.unlink(os.path.join(self.seen, name))
        environment = {"PATH": self.path, "HOME": self.root, **caller}
        reader, writer = os.pipe()
        with subprocess.Popen(
            ["bash", path, *arguments],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(writer,),
            start_new_session=True,
        ) as process:
            os.close(writer)
            # the pipe ends when the last descendant has ended, also one in the background
            ended = select.select([reader], [], [], 10.0)[0]
            os.close(reader)
            if not ended:
                os.killpg(process.pid, signal.SIGKILL)
                return None
        seen = [self._read(os.path.join(self.seen, name)) for name in os.listdir(self.seen)]
        if not seen:
            return None
        # of several engines: what all of them see
        return {name: value for name, value in seen[0].items() if all(each.get(name) == value for each in seen[1:])}

    @staticmethod
    def _read(path: str) -> dict[str, str]:
        with open(path, "rb") as file:
            entries = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries if name not in _BASE}
