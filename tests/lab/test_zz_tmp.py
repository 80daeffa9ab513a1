import os, signal, time
from pathlib import Path
import pytest
from tests.lab.conftest import *
from tests.lab.test_deploy import Site
from tests.lab.conftest import QUICK

def start(site, *a):
    return site.lab.start("deploy.yml", "-i", "inventory/lab", "-i", str(site.folder/"extra.yml"), *QUICK, *a)

def test_killed(story, tmp_path):
    site = Site(story, tmp_path)
    site.bare()
    p = start(site)
    story.wait("start of decode", lambda: any(s["step"]=="start" and s["instance"]=="lab-decode" for c in story.changes() for s in c["steps"]), 120)
    os.killpg(p.pid, signal.SIGKILL); p.wait()
    ran = site.deploy()
    print(ran.text[-3000:])
    assert ran.rc == 0
    print([ (c["state"], [ (f["path"], f["sha256_before"][:8], f.get("existed")) for f in c["files"]]) for c in story.changes()])
    assert story.serves()
    site.bare()
    p = start(site)
    story.wait("start of decode", lambda: any(s["step"]=="start" and s["instance"]=="lab-decode" for c in story.changes() for s in c["steps"]), 120)
    os.killpg(p.pid, signal.SIGKILL); p.wait()
    story.wait("rolled back", lambda: story.changes() and story.changes()[-1]["state"] == "rolled-back", 120)
    print(story.changes()[-1]["reason"], site.scripts, site.states())
    assert not site.scripts
    ran = site.deploy("--check")
    print(ran.text[-2500:])
