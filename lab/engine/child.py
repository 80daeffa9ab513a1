# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The scheduler or detokenizer process: it has the real one's title, beats its heart, and dies with its parent.

Run as `python -m lab.engine.child TITLE PARENT_PID [MEMORY_FD]`. The title is set by the real setproctitle, which
writes over the memory that /proc/<pid>/environ shows, unless SPT_NOENV=1. The heart is a counter and the wall clock
in memory shared with the main process: SIGSTOP stops it, as a scheduler that hangs stops answering.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
import sys
import time

import setproctitle

BEAT_S = 0.2
HEART = struct.Struct("=Qdd")  # beats, time.time(), CPU seconds
_PR_SET_PDEATHSIG = 1


def main() -> None:
    title, parent = sys.argv[1], int(sys.argv[2])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setproctitle.setproctitle(title)
    heart = mmap.mmap(int(sys.argv[3]), HEART.size) if len(sys.argv) > 3 else None
    beats = 0
    # The parent may have died before prctl: hence the look at ppid.
    while os.getppid() == parent:
        if heart is not None:
            beats += 1
            HEART.pack_into(heart, 0, beats, time.time(), time.process_time())
        time.sleep(BEAT_S if heart is not None else 1.0)


if __name__ == "__main__":
    main()
