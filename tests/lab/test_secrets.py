# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""No secret of a serve script in anything that pdops shows, keeps or runs, but the stored contents themselves (0600)."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import KNOB, ROOT, Lab, Ran

pytestmark = pytest.mark.lab

CASE = ROOT / "tests" / "unit" / "scripts" / "cases" / "08_duplicate_and_secret.sh"
SECRETS = (b"hf_exampleexampleexample", b"not-a-real-key")
# Said by the script itself, so that a failing run has them in the log lines that it shows.
SAID = """echo "starting with $HF_TOKEN and SGLANG_API_KEY=$SGLANG_API_KEY"
echo "server_args=ServerArgs(api_key='$SGLANG_API_KEY', tp_size=1)"
echo "just $SGLANG_API_KEY and nothing else"
"""


def with_secrets(script: bytes) -> bytes:
    """Case 08 in the decode's place: its exports before the lab's own engine, which gets the key as an argument, too."""
    exports = b"".join(line for line in CASE.read_bytes().splitlines(True)[1:] if not line.startswith(b"exec"))
    head, exec_line, rest = script.partition(b"\nexec ")
    assert exec_line and head.startswith(b"#!")
    return head + b"\n" + exports + SAID.encode() + b"exec " + rest.rstrip() + b' --admin-api-key "$SGLANG_API_KEY"\n'


@contextmanager
def arguments_watched(engine_marks: tuple[bytes, ...]) -> Iterator[set[bytes]]:
    """The command lines of all processes that hold a secret, but for those of engines (and of unit tests beside)."""
    found: set[bytes] = set()
    over = threading.Event()

    def look() -> None:
        seen: dict[
            str, int
        ] = {}  # a process gets its arguments in its first moments, so what is old is looked at seldom
        while not over.is_set():
            running = [name for name in os.listdir("/proc") if name.isdigit()]
            seen = {name: seen.get(name, 0) + 1 for name in running}
            for name in running:
                if seen[name] <= 20 or seen[name] % 40 == 0:
                    try:
                        line = Path("/proc", name, "cmdline").read_bytes()
                    except OSError:
                        continue
                    if any(secret in line for secret in SECRETS) and not any(mark in line for mark in engine_marks):
                        found.add(line)
            time.sleep(0.05)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def holders(folder: Path) -> list[Path]:
    """The files under a folder that hold a secret."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if any(secret in content for secret in SECRETS):
                found.append(path)
    return found


def shows_none(ran: Ran) -> None:
    for secret in SECRETS:
        assert secret.decode() not in ran.text, ran.text[max(0, ran.text.index(secret.decode()) - 400) :][:600]


def test_no_secret_in_any_output_record_argument_or_leftover(story: Lab, tmp_path: Path) -> None:
    story.script.write_bytes(with_secrets(story.script.read_bytes()))
    story.backup.write_bytes(story.script.read_bytes().replace(b"CTAS=512", b"CTAS=768"))
    log, temporary = tmp_path / "ansible.log", tmp_path / "tmp"
    temporary.mkdir()
    story.environment.update(
        ANSIBLE_LOG_PATH=str(log),
        ANSIBLE_LOCAL_TEMP=str(temporary / "local"),
        ANSIBLE_REMOTE_TEMP=str(temporary / "remote"),
        TMPDIR=str(temporary),
    )
    loud = ("-vvvv", "--diff", "-e", "pd_drain_s=3")
    knob = ("-e", f"knob={KNOB}")
    ran: dict[str, Ran] = {}
    with arguments_watched((b"lab.engine", b"sglang::", b"pdops-oracle")) as found:
        ran["set"] = story.play("set_knob.yml", *knob, "-e", "value=256", *loud)
        ran["revert"] = story.play("revert_knob.yml", *knob, "-e", "reason=suspicion", *loud)
        ran["restore"] = story.play("restore_knob.yml", *knob, "-e", "value=768", *loud)
        ran["verify"] = story.play("verify.yml", *loud)
        story.lab("fault", "refuse_start_with", f"{KNOB}=1024")
        ran["failing"] = story.play("set_knob.yml", *knob, "-e", "value=1024", *loud)
        story.lab("fault", "--clear")
    for name, each in ran.items():
        assert each.rc == (2 if name == "failing" else 0), each.text[-6000:]
        shows_none(each)
    assert "log:" in ran["failing"].words and "starting with ********" in ran["failing"].words
    assert "HF_TOKEN=********" in ran["set"].text  # it was shown, and masked
    assert found == set()

    assert log.stat().st_size > 10_000
    assert holders(tmp_path) == []
    state = story.dir / "state"
    objects = state / "objects"
    assert {path.parent for path in holders(state)} == {objects}
    for path in state.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in objects.iterdir()} == {0o600}
    # Besides, only what had it before: the script, its backup, and the log of the engine that said it.
    for path in holders(story.dir):
        assert path in (story.script, story.backup) or path.parent in (objects, story.dir / "logs"), path


@pytest.mark.long
def test_a_value_whose_former_line_only_a_run_can_tell_comes_back_by_revert(story: Lab) -> None:
    line = f"export {KNOB}=${{CTAS_OF_TODAY:-$((256 * 2))}}   # by the day\n"
    script = story.script.read_text()
    assert f"export {KNOB}" not in script
    former = script.replace("export SGLANG_SM120_FLASHMLA", line + "export SGLANG_SM120_FLASHMLA", 1)
    assert former != script
    story.script.write_text(former)
    knob = ("-e", f"knob={KNOB}")
    assert story.play("set_knob.yml", *knob, "-e", "value=768", "-e", "pd_drain_s=3").rc == 0
    assert story.running_knob() == "768"
    checked = story.play("revert_knob.yml", *knob, "-e", "reason=suspicion", "--check")
    assert line.strip() in checked.words or line.split("   ")[0] in checked.words, checked.text
    ran = story.play("revert_knob.yml", *knob, "-e", "reason=suspicion", "-e", "pd_drain_s=3")
    assert ran.rc == 0, ran.text
    assert story.script.read_text() == former
    assert story.running_knob() == "512"
    assert f"reverted {KNOB} (now export {KNOB}=" in ran.words
    # The line is there, though nobody can say its value without running it.
    again = story.play("restore_knob.yml", *knob)
    assert again.rc == 0 and again.recap["changed"] == 0, again.text
    assert "whose value only a run tells" in again.words
