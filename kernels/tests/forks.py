# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Processes that begin with torch and triton imported: forks of one that imported them once, which costs seconds each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_PARENT = """
import json, os, runpy, signal, sys
import torch, triton
for line in sys.stdin:
    asked = json.loads(line)
    pid = os.fork()
    if pid == 0:
        signal.alarm(300)
        for number, name in enumerate((os.devnull, asked["out"], asked["err"])):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["env"])
        sys.path[:0] = asked["env"]["PYTHONPATH"].split(":")
        if asked["module"]:
            sys.argv[1:] = asked["arguments"]
            runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
        else:
            exec(compile(asked["code"], "<code>", "exec"), {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Forks:
    """One parent; `interpret` is what Triton's own functions were decorated for when it was imported."""

    def __init__(self, interpret: bool) -> None:
        known = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON", "PDOPS", "SGLANG", "PYTHONPATH"))}
        more = {"TRITON_INTERPRET": "1"} if interpret else {}
        self._parent = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _PARENT],
            env=known | more, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(
        self, env: dict[str, str], cwd: Path, *, code: str = "", module: str = "", arguments: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """`python -c code` or `python -m module arguments`; PYTHONPATH of `env` stands in front of the path."""
        assert self._parent.stdin and self._parent.stdout
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            asked = {"env": env, "cwd": str(cwd), "code": code, "module": module, "arguments": arguments}
            self._parent.stdin.write(json.dumps({**asked, "out": str(out), "err": str(err)}) + "\n")
            self._parent.stdin.flush()
            rc = int(self._parent.stdout.readline())
            return subprocess.CompletedProcess([module or code, *arguments], rc, out.read_text(), err.read_text())

    def close(self) -> None:
        self._parent.communicate()
