# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A stand-in for systemctl and journalctl, where no systemd can run: real processes, state in a folder.

Prints what systemd 252 prints. Units are JSON files in FOLDER/units: {"exec": [...], "show": {fixed properties},
"kill_mode": "mixed", "stop_s": 90}. Started through two small scripts named systemctl and journalctl.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

FOLDER = Path(os.environ.get("PDOPS_FAKE_SYSTEMD", "/nonexistent"))
IDLE = {
    "LoadState": "loaded",
    "LoadError": "",
    "ActiveState": "inactive",
    "SubState": "dead",
    "Result": "success",
    "MainPID": "0",
    "ExecMainPID": "0",
    "ExecMainCode": "0",
    "ExecMainStatus": "0",
    "InvocationID": "",
    "ControlGroup": "",
    "NRestarts": "0",
    "NeedDaemonReload": "no",
    "ConditionResult": "no",
    "AssertResult": "no",
    "TimeoutStopUSec": "1min 30s",
    "FragmentPath": "",
}


@contextlib.contextmanager
def state(unit: str):
    """The properties of a unit, to be read and changed under a lock."""
    path = FOLDER / "state" / unit
    path.parent.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = json.loads(path.read_text()) if path.exists() else dict(IDLE)
        yield found
        path.write_text(json.dumps(found))


def description(unit: str) -> dict | None:
    path = FOLDER / "units" / unit
    return json.loads(path.read_text()) if path.exists() else None


def session(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and pid > 0:
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[3]) == pid and fields[0] != b"Z":
                    found.append(int(name))
    return found


def cgroup(unit: str, found: dict) -> None:
    """Keeps a folder like the one of a cgroup; systemd removes an empty one and forgets its path."""
    leader = int(found["ExecMainPID"])
    pids = session(leader)
    folder = FOLDER / "cgroup" / "system.slice" / unit
    if pids:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        found["ControlGroup"] = f"/system.slice/{unit}"
    else:
        with contextlib.suppress(OSError):
            (folder / "cgroup.procs").unlink()
            folder.rmdir()
        found["ControlGroup"] = ""


def show(properties: str, unit: str) -> int:
    about = description(unit)
    if about is None:
        found = {
            **IDLE,
            "LoadState": "not-found",
            "LoadError": f'org.freedesktop.systemd1.NoSuchUnit "Unit {unit} not found."',
        }
    else:
        with state(unit) as found:
            cgroup(unit, found)
            if found["ActiveState"] == "inactive" and not found["ControlGroup"] and "Job" not in found:
                found.clear()  # systemd forgets a unit that is inactive and empty
                found.update(IDLE)
            found = {**found, **about.get("show", {})}
    for name in properties.split(","):
        if name in found:
            print(f"{name}={found[name]}")
    return 0


def start(unit: str) -> int:
    about = description(unit)
    with state(unit) as found:
        if found["ActiveState"] in ("active", "activating"):
            return 0
        if "skipped" in about:
            with (FOLDER / "journal" / f"{unit}.0").open("a") as log:
                log.write(about["skipped"] + "\n")
            return 0
        found.update(Job="7", ConditionResult="yes", AssertResult="yes")
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen([sys.executable, __file__, "run", unit], start_new_session=True, **quiet)
    return 0


def run(unit: str) -> None:
    """What PID 1 does for a unit: runs it, and notes how it ended."""
    about = description(unit)
    invocation = uuid.uuid4().hex
    with (FOLDER / "journal" / f"{unit}.{invocation}").open("ab") as log:
        main = subprocess.Popen(about["exec"], start_new_session=True, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    with state(unit) as found:
        found.update(IDLE, ActiveState="active", SubState="running", MainPID=str(main.pid), ExecMainPID=str(main.pid))
        found.update(InvocationID=invocation, ConditionResult="yes", AssertResult="yes")
        found.pop("Job", None)
        cgroup(unit, found)
    code = main.wait()
    if about.get("kill_mode") == "mixed":
        for pid in session(main.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    with state(unit) as found:
        stopping = found["ActiveState"] == "deactivating"
        clean = code == 0 or (code == -signal.SIGTERM and stopping)
        found.update(ExecMainCode="1" if code >= 0 else "2", ExecMainStatus=str(abs(code)), MainPID="0")
        result = found.pop("TimedOut", "success") if clean or stopping else ("exit-code" if code > 0 else "signal")
        if stopping and code == -signal.SIGKILL:
            result = "signal"
        found.update(Result=result, ActiveState="inactive" if result == "success" else "failed")
        found["SubState"] = "dead" if result == "success" else "failed"
        cgroup(unit, found)


def stop(unit: str) -> int:
    with state(unit) as found:
        pid = int(found["MainPID"])
        if pid:
            found.update(ActiveState="deactivating", SubState="stop-sigterm")
            os.kill(pid, signal.SIGTERM)
    return 0


def kill(number: str, unit: str) -> int:
    with state(unit) as found:
        pids = session(int(found["ExecMainPID"]))
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.Signals[f"SIG{number}"])
    return 0 if pids else 1


def journal(words: list[str]) -> int:
    """Lines as cat or json; the time of a line is that of its run's last one."""
    wanted = next((word.partition("=")[2] for word in words if word.startswith("_SYSTEMD_INVOCATION_ID=")), "")
    unit = words[words.index("-u") + 1] if "-u" in words else ""
    since = float(words[words.index("--since") + 1].lstrip("@")) if "--since" in words else 0.0
    entries = []
    for path in sorted((FOLDER / "journal").iterdir(), key=lambda path: path.stat().st_mtime):
        if path.stat().st_mtime < since:
            continue
        invocation = path.name.rpartition(".")[2]
        if (wanted and invocation == wanted) or (unit and path.name.startswith(unit)):
            entries += [
                {
                    "MESSAGE": list(line.encode()) if "\x1b" in line else line,
                    "_SYSTEMD_INVOCATION_ID": invocation,
                    "__REALTIME_TIMESTAMP": str(int(path.stat().st_mtime * 1e6)),
                }
                for line in path.read_text().splitlines()
            ]
    entries = entries[-int(words[words.index("-n") + 1]) :]
    if "json" in words:
        print("\n".join(map(json.dumps, entries)))
    else:
        print(
            "\n".join(
                entry["MESSAGE"] if isinstance(entry["MESSAGE"], str) else bytes(entry["MESSAGE"]).decode()
                for entry in entries
            )
        )
    return 0


def main() -> int:
    program, words = sys.argv[1], sys.argv[2:]
    if program == "run":
        run(words[0])
        return 0
    with (FOLDER / "calls").open("a") as calls:
        calls.write(" ".join([program, *words]) + "\n")
    if program == "journalctl":
        return journal(words)
    verb = words[0]
    if (FOLDER / "refuse").exists() and verb not in ("show",):
        print((FOLDER / "refuse").read_text(), file=sys.stderr)
        return 1
    unit = words[-1]
    if verb == "show":
        return show(words[words.index("-p") + 1], unit)
    if verb == "kill":
        return kill(words[words.index("-s") + 1], unit)
    if verb in ("start", "stop"):
        unit = next(word for word in words[1:] if not word.startswith("-"))
        return start(unit) if verb == "start" else stop(unit)
    if verb == "reset-failed":
        with state(unit) as found:
            if found["ActiveState"] == "failed":
                found.update(ActiveState="inactive", SubState="dead", Result="success")
    if verb == "hang":
        time.sleep(60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
