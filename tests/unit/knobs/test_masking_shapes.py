# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Keys that have no name before them are known by their form; what only begins like one stays readable. All are made up."""

from __future__ import annotations

import time

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.knobs import MASK, mask_text
from ansible_collections.pdops.sglang.plugins.module_utils.record.masking import holds_secret

# Put together here, so that no file has the form of a key in it.
LETTERS = "MadeUp0" * 6
HEX = "0a1b2c3d" * 5
KEYS = [
    "hf_" + LETTERS,
    "hf_" + "oauth_" + LETTERS,
    "nvapi-" + "MadeUp-_0" * 6,
    "sk-" + "ant-" + "api03-" + "MadeUp0-_" * 9 + "-AA",
    "sk-" + "proj-" + "MadeUp0_x" + "-REMAINDER_of-the-Key0" * 3,
    "sk-" + "svcacct-" + LETTERS,
    "sk-" + "or-" + "v1-" + HEX,
    "sk-" + LETTERS,
    "gsk_" + LETTERS,
    "AIza" + ("MadeUp0-_" * 4)[:35],
    "npm_" + LETTERS[:36],
    "pypi-" + "AgE" + LETTERS,
    "dckr_" + "pat_" + "MadeUp0-_" * 3,
    "xai-" + LETTERS,
    "tgp_" + "v1_" + "MadeUp0-_" * 4,
    "ASIA" + "MADEUP00" * 2,
    "AKIA" + "MADEUP00" * 2,
    "ya29." + "a0MadeUp-_" * 4,
    ".".join(["eyJ" + "hbGciOiJub25lIn0", "eyJ" + "tYWRlIjoidXAifQ", "MadeUpSignature"]),
    "xoxb-" + "0000-1111-MadeUp0MadeUp0",
    "glpat-" + "MadeUp0-_" * 3,
]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[:6])
@pytest.mark.parametrize("form", ["{}", "the key {}, used", 'x="{}"', "({})", "http://h/?q={}", "a {}\nb"])
def test_a_key_is_masked_whole_by_its_form(key, form):
    assert mask_text(form.format(key)) == form.format(MASK)
    assert holds_secret({"said": form.format(key)})


@pytest.mark.parametrize("options", ["", "--relogin ", "--host=http://h "])
def test_the_key_of_a_login_is_masked(options):
    assert mask_text(f"wandb login {options}{HEX}\n") == f"wandb login {options}{MASK}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"commit {HEX}",
        "sha256:" + "0123456789abcdef" * 4,
        "0123456789abcdef" * 4,
        "torch==2.9.1+cu130.post20260101git0a1b2c3d",
        "deepseek-ai/DeepSeek-V3.2-Exp-Base",
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5-FP8",
        "sk-learn and scikit-learn-intelex",
        "sk-project-folder/with-a-long-path-name",
        "sk-or-something-that-has-many-words-in-it",
        "task-0123456789abcdef0123456789abcdef",
        "disk-AbCdEfGhIjKlMnOpQrStUvWx",
        "npm_config_registry npm_lifecycle_event",
        "pypi-mirror-of-the-second-floor-01",
        "xai-org/grok-2",
        "xai-something-long-with-words",
        "nvapi-based-endpoint-of-the-house",
        "gsk_shared_memory_of_the_kernel",
        "tgp_total",
        "dckr_pat_",
        "hf_hub_download_with_retries",
        "wandb login",
        "wandb login --relogin",
        "eyJ.eyJ.x",
        "ASIA-Pacific ASIA EURASIANORTHWESTERNEXPRESS",
        "AIzawa",
        "ya29.txt",
    ],
)
def test_what_only_looks_like_a_key_stays(text):
    assert mask_text(text) == text


@pytest.mark.parametrize(
    "piece", ["sk-", "sk-proj-", "nvapi-", "eyJa", "eyJabcdefgh.eyJ", "wandb login ", "sk-or-_", "a-"]
)
def test_it_takes_time_in_proportion(piece):
    began = time.process_time()
    mask_text(piece * (400_000 // len(piece)))
    assert time.process_time() - began < 8
