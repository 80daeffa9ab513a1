# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A small engine for tests: a main process with an HTTP port, and children by multiprocessing like SGLang's.

Its children call the real setproctitle, which overwrites their environ unless SPT_NOENV=1 is set.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


def child(title: str, session: bool, deaf: bool) -> None:
    if session:
        os.setsid()
    elif not deaf:
        # Like the real schedulers, these end with their parent; a test that is killed leaves none behind.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if title:
        import setproctitle

        setproctitle.setproctitle(title)
    while True:
        time.sleep(60)


class Handler(BaseHTTPRequestHandler):
    answers: ClassVar[dict] = {}

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length:
            self.rfile.read(length)
        status, body = self.answers.get(self.path.partition("?")[0], (404, {"detail": "Not Found"}))
        if status == "hang":
            time.sleep(body)
            return
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = _answer

    def log_message(self, *_unused: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--children", type=int, default=0)
    parser.add_argument("--title", default="")
    parser.add_argument("--session", action="store_true", help="the children get sessions of their own")
    parser.add_argument("--deaf", action="store_true", help="SIGTERM is ignored")
    parser.add_argument("--deaf-children", action="store_true")
    parser.add_argument("--die-after", type=float, default=-1.0)
    parser.add_argument("--exit-code", type=int, default=3)
    parser.add_argument("--load", type=float, default=0.0)
    parser.add_argument("--load-until", default="", help="a file: loading ends when it is there")
    parser.add_argument("--answers", default="{}", help="JSON: path to [status, body]")
    parser.add_argument("--say", default="")
    parser.add_argument(
        "--sets", default="", help="NAME=VALUE that the engine sets itself before it starts its children"
    )
    parser.add_argument("--api-key", default="")
    given = parser.parse_args()
    if given.say:
        print(given.say, flush=True)
    if given.die_after == 0:
        print("fatal: no such knob", file=sys.stderr, flush=True)
        sys.exit(given.exit_code)
    if given.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_unused: os._exit(0))
    if given.sets:
        name, _equals, value = given.sets.partition("=")
        os.environ[name] = value
    context = multiprocessing.get_context("spawn")
    for _number in range(given.children):
        context.Process(target=child, args=(given.title, given.session, given.deaf_children), daemon=False).start()
    time.sleep(given.load)
    while given.load_until and not os.path.exists(given.load_until):
        time.sleep(0.05)
    if given.port:
        Handler.answers = {path: tuple(answer) for path, answer in json.loads(given.answers).items()}
        import threading

        server = Server(("127.0.0.1", given.port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    if given.die_after > 0:
        time.sleep(given.die_after)
        print("fatal: fell over", file=sys.stderr, flush=True)
        os._exit(given.exit_code)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
