# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What deploy.yml made of five machines, and a rolling restart over them. Tests run in this order; the faults come after them."""

from __future__ import annotations

from ...lab.streams import Streams
from .fleet import QUICK, ROUTER, Fleet

CLIENTS = 16


def test_deployed_on_five_machines(fleet: Fleet) -> None:
    deploys = fleet.each(lambda machine, _instance: [c["state"] for c in machine.changes() if c["verb"] == "deploy"])
    assert all(states[-1] == "confirmed" for states in deploys.values()), deploys
    assert set(fleet.workers()) == {
        *(f"http://gpu{number}.example.net:30000" for number in (1, 2)),
        *(f"http://gpu{number}.example.net:30001" for number in (3, 4)),
    }
    enabled = fleet.each(lambda machine, instance: machine.sh(f"systemctl is-enabled {fleet.unit(instance)}"))
    assert set(enabled.values()) == {"enabled"}
    ran = fleet.play("verify.yml")
    assert ran.rc == 0 and ran.recap["changed"] == 0, ran.text


def test_decodes_restart_one_by_one_under_streams_and_no_request_fails(fleet: Fleet) -> None:
    pids, scripts = fleet.pids(), fleet.scripts()
    with Streams(ROUTER.replace("gw1.example.net", fleet["dsv4-router"].address), CLIENTS) as streams:
        ran = fleet.play("restart.yml", "-e", "role=decode", *QUICK)
    assert ran.rc == 0, ran.text
    print(f"{streams.whole} streams ended whole, {sum(streams.lost.values())} were lost")
    assert not streams.lost and streams.whole > 2 * CLIENTS, (streams.whole, streams.lost)
    assert "restart one by one: dsv4-decode-1 -> dsv4-decode-2" in ran.words
    assert "expected outage: none" in ran.words and "requests lost 0" in ran.words
    assert fleet.changed(pids) == {"dsv4-decode-1", "dsv4-decode-2"} and fleet.scripts() == scripts
    assert fleet.states() == {"confirmed"} and fleet.whole()
