# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The Python that serves: which one it is, and what it has and would import. It is asked, never looked into."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

from ..pdops_error import PdopsError
from ..processes import arguments, read_environ
from ..services.base import UnitStatus
from .requirement import fits, requirement_of
from .scripts_say import interpreter_in

ASK_S = 60.0
#: Also understood by a Python that is too old for the package. Of Triton's cache key, as in pdops_kernels.prewarm.cache_name.
_ASK = """
import json, sys
told = {"python": ".".join(map(str, sys.version_info[:3])), "executable": sys.executable}
try:
    from importlib.metadata import version
    for name in ("triton", "torch", "sglang"):
        try:
            told[name] = version(name)
        except Exception:
            pass
except ImportError:
    pass
if "triton" in told and sys.argv[1:] == ["key"]:
    try:
        import hashlib, importlib
        library = importlib.import_module("triton._C.libtriton")
        env = json.dumps(library.get_cache_invalidating_env_vars(), sort_keys=True)
        told["key"] = hashlib.sha256(env.encode()).hexdigest()[:8]
        told["folder"] = list(sys.modules["triton"].__path__)[0]
    except Exception as error:
        told["key_error"] = "%s: %s" % (type(error).__name__, error)
print(json.dumps(told))
"""


@dataclass(frozen=True)
class Told:
    """What a Python says of itself; versions are ``""`` when it has none.

    :ivar key: hash of the environment that is part of Triton's cache key
    :ivar triton_folder: where that Triton is
    """

    path: str
    python: str
    triton: str = ""
    torch: str = ""
    sglang: str = ""
    key: str = ""
    triton_folder: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def find_python(name: str, script: bytes, status: Optional[UnitStatus], given: Optional[str]) -> str:
    """The absolute path of the Python that a serve script starts.

    :param name: of the instance, for sentences
    :param given: ``pd_kernel_python``, which wins
    :raises PdopsError: neither the script nor the running process tells
    """
    word = given or interpreter_in(script)
    if word and word.startswith("/"):
        return word
    main = status.main if status is not None else None
    if main is not None:
        environ = read_environ(main.pid)
        words = arguments(main.pid)
        wanted = word or (words[0] if words else "python")
        # By the PATH of the process: a script may activate a virtual environment before it starts the engine.
        if environ.whole:
            found = wanted if wanted.startswith("/") else shutil.which(wanted, path=environ.values.get("PATH", ""))
            if found:
                return found
    raise PdopsError(
        f"{name}: which Python it serves with is not told by its script ({word or 'no engine is recognized'}), and no process of it "
        "runs that would tell; give pd_kernel_python."
    )


def clean_environment(knobs: Mapping[str, Optional[str]]) -> dict[str, str]:
    """The environment of a check: little of this process's own, and what the script gives to the engine."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    given = {name: value for name, value in knobs.items() if value is not None}
    return {**kept, **given, "PYTHONDONTWRITEBYTECODE": "1"}


def run_python(
    python: str, words: Sequence[str], environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """:raises PdopsError: it cannot be started, or does not end in time"""
    try:
        return subprocess.run(
            [python, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env=dict(environment),
            cwd="/",
        )
    except OSError as error:
        raise PdopsError(
            f"{python} does not run on this machine ({error.strerror}); correct pd_kernel_python or the script."
        ) from None
    except subprocess.TimeoutExpired:
        raise PdopsError(f"{python} {' '.join(words[:2])[:60]} did not end within {timeout_s:.0f} s.") from None


def ask(python: str, knobs: Mapping[str, Optional[str]], key: bool = False) -> Told:
    """What this Python is and has.

    :param knobs: those that the engine will have, since some are part of Triton's cache key
    :param key: also import Triton, for that key
    """
    done = run_python(python, ["-c", _ASK, *(["key"] if key else [])], clean_environment(knobs), ASK_S)
    try:
        said = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise PdopsError(f"{python} does not answer as a Python does: {last_words(done)}") from None
    return Told(
        python,
        said["python"],
        said.get("triton", ""),
        said.get("torch", ""),
        said.get("sglang", ""),
        said.get("key", ""),
        said.get("folder", ""),
    )


def last_words(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
    return lines[-1][:300] if lines else f"exit code {done.returncode}"


def check_python(told: Told, package: Mapping[str, Any], triton_wanted: bool) -> None:
    """Refuse a Python that cannot serve this package.

    :param package: ``name``, ``version``, ``requires_python`` and ``requires`` of the wheel
    :param triton_wanted: whether the kernels are to be compiled here; a simulated engine has no Triton
    """
    called = f"{package['name']} {package['version']}"
    if not fits(told.python, str(package.get("requires_python") or "")):
        raise PdopsError(
            f"{told.path} is Python {told.python}, and {called} needs {package['requires_python']}; nothing was changed: "
            "serve with another Python, or give a wheel for this one."
        )
    condition = requirement_of(tuple(package.get("requires") or ()), "triton")
    if condition is None or (not told.triton and not triton_wanted):
        return
    if not told.triton:
        raise PdopsError(f"{told.path} has no triton, and {called} needs {condition}; nothing was changed.")
    if not fits(told.triton, condition):
        raise PdopsError(f"{told.path} has triton {told.triton}, and {called} needs {condition}; nothing was changed.")
