# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A small agent client: one conversation that grows round by round, over one kept connection, as the story's client."""

from __future__ import annotations

import http.client
import json
import time
from urllib.parse import urlsplit

from .runner import Lab, router_url, say


def run(lab: Lab, rounds: int, through: str, timeout_s: float) -> int:
    """Print a line per round; return 1 when a round was not answered in time."""
    url = lab["proxy"]["url"] if through == "proxy" else router_url(lab)
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    messages: list[dict[str, str]] = []
    for number in range(1, rounds + 1):
        messages.append({"role": "user", "content": f"round {number}: what is next?"})
        begin = time.monotonic()
        try:
            body = json.dumps({"model": lab["model"], "messages": messages, "max_tokens": 16})
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            content = json.loads(text)["choices"][0]["message"]["content"] if answer.status == 200 else ""
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            say(
                f"round {number} of {rounds} through the {through}: no answer after {time.monotonic() - begin:.1f} s ({error})"
            )
            return 1
        if answer.status != 200 or not content:
            say(
                f"round {number} of {rounds} through the {through}: status {answer.status}, {text[:200].decode(errors='replace')}"
            )
            return 1
        print(f"  round {number:>2}: {time.monotonic() - begin:.2f} s, {len(content)} characters", flush=True)
        messages.append({"role": "assistant", "content": content})
    say(f"all {rounds} rounds through the {through} were answered")
    return 0
