# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import os

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.knobs import MASK, mask_env, mask_text
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.quoting import written
from hypothesis import assume, given, settings
from hypothesis import strategies as st

CASES = os.path.join(os.path.dirname(__file__), "..", "scripts", "cases")

# Before and after; @ stands for the mask.
TABLE = [
    ("export HF_TOKEN=hf_abcdef", "export HF_TOKEN=@"),
    ("export HF_TOKEN='a b' # why", "export HF_TOKEN='@' # why"),
    ('export HF_TOKEN="a b"; export A=1', 'export HF_TOKEN="@"; export A=1'),
    ("export HF_TOKEN=$'a\\'b' A=1", "export HF_TOKEN=$'@' A=1"),
    ("export HF_TOKEN=a\\ b A=1", "export HF_TOKEN=@ A=1"),
    ("export HF_TOKEN='it'\"'\"'s' A=1", "export HF_TOKEN='@'\"@\"'@' A=1"),
    ('export "HF_TOKEN=a b" B=2', 'export "HF_TOKEN=@" B=2'),
    ('export "HF_TOKEN"=ab B=2', 'export "HF_TOKEN"=@ B=2'),
    ("export HF_TOKEN+=more", "export HF_TOKEN+=@"),
    ('export HF_TOKEN="line1\nline2" A=1', 'export HF_TOKEN="@\n@" A=1'),
    ("#export HF_TOKEN=abc", "#export HF_TOKEN=@"),
    ("# don't: export HF_TOKEN='abc def' A=1", "# don't: export HF_TOKEN='@' A=1"),
    ("HF_TOKEN=abc SGLANG_LOG_MS=1 exec python x", "HF_TOKEN=@ SGLANG_LOG_MS=1 exec python x"),
    ("env HF_TOKEN=abc python", "env HF_TOKEN=@ python"),
    ("python --api-key abc --port 1", "python --api-key @ --port 1"),
    ("python --api-key=abc --port 1", "python --api-key=@ --port 1"),
    ("python --admin-api-key 'a b' --port 1", "python --admin-api-key '@' --port 1"),
    ("python --api-key \\\n  abc \\\n  --port 1", "python --api-key \\\n  @ \\\n  --port 1"),
    ('A=(--api-key "k1" "--admin-api-key" "k2" --tp 4)', 'A=(--api-key "@" "--admin-api-key" "@" --tp 4)'),
    ('A+=("--api-key=abc" --port 1)', 'A+=("--api-key=@" --port 1)'),
    ('--api-key "$SGLANG_API_KEY" --port 1', '--api-key "$SGLANG_API_KEY" --port 1'),
    ('--api-key "${SGLANG_API_KEY}"', '--api-key "${SGLANG_API_KEY}"'),
    ("--api-key --port 1", "--api-key --port 1"),
    ("--tokenizer-path /x --port 1", "--tokenizer-path /x --port 1"),
    ('curl -H "Authorization: Bearer abc-def" http://x', 'curl -H "Authorization: Bearer @" http://x'),
    ("curl -H 'authorization: bearer abc def'", "curl -H 'authorization: bearer @'"),
    ('curl -H "Authorization: Bearer $KEY" http://x', 'curl -H "Authorization: Bearer $KEY" http://x'),
    ('bash -c "export HF_TOKEN=abc; python"', 'bash -c "export HF_TOKEN=@; python"'),
    ("bash -c 'HF_TOKEN=\"a b\" python'", "bash -c 'HF_TOKEN=\"@\" python'"),
    ("docker run -e HF_TOKEN=abc -e A=1", "docker run -e HF_TOKEN=@ -e A=1"),
    ('echo \'{"api_key": "sk-1", "b": 1}\'', 'echo \'{"api_key": "@", "b": 1}\''),
    ('echo "{\\"api_key\\": \\"sk-1\\", \\"b\\": 1}"', 'echo "{\\"api_key\\": \\"@\\", \\"b\\": 1}"'),
    ("api-key: sk-1", "api-key: @"),
    ("export HF_TOKEN=$(cat /run/secret) A=1", "export HF_TOKEN=@ A=1"),
    ("export HF_TOKEN=${HF_TOKEN:-hf_zzzzzz} # hf_zzzzzz", "export HF_TOKEN=@ # @"),
    ("export HF_TOKEN=abcdef\necho abcdef xabcdefy", "export HF_TOKEN=@\necho @ x@y"),
    ("export HF_TOKEN=abc\necho abc", "export HF_TOKEN=@\necho abc"),
    ("--prefill http://user:pw@host:1", "--prefill http://user:@@host:1"),
    ("-export HF_TOKEN=abc\r\n+export HF_TOKEN=abd\r\n", "-export HF_TOKEN=@\r\n+export HF_TOKEN=@\r\n"),
    ("HF_TOKEN= python x", "HF_TOKEN= python x"),
    ("unset HF_TOKEN; export PATH=/x:$PATH", "unset HF_TOKEN; export PATH=/x:$PATH"),
    (
        "export SGLANG_MAX_NEW_TOKENS=5 TOKENIZERS_PARALLELISM=false",
        "export SGLANG_MAX_NEW_TOKENS=5 TOKENIZERS_PARALLELISM=false",
    ),
    ("", ""),
]


@pytest.mark.parametrize(("text", "masked"), TABLE)
def test_the_value_is_masked_and_all_else_stays(text: str, masked: str) -> None:
    assert mask_text(text) == masked.replace("@@", "\0").replace("@", MASK).replace("\0", MASK + "@")


@pytest.mark.parametrize("name", sorted(name for name in os.listdir(CASES) if name.endswith(".sh")))
def test_the_shared_cases_change_only_where_secrets_are(name: str) -> None:
    with open(os.path.join(CASES, name), encoding="utf-8", newline="") as file:
        text = file.read()
    masked = mask_text(text)

    if not name.startswith("08"):
        assert masked == text
        return
    assert "hf_example" not in masked
    assert "not-a-real-key" not in masked
    assert masked.replace(MASK, "hf_exampleexampleexample", 1).replace(MASK, "not-a-real-key", 1) == text


def test_masking_an_environment() -> None:
    assert mask_env({"HF_TOKEN": "x", "SGLANG_LOG_MS": "1"}) == {"HF_TOKEN": MASK, "SGLANG_LOG_MS": "1"}


SECRET = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=6, max_size=20).filter(
    lambda text: "*" not in text and len(set(text)) > 3
)


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(secret=SECRET, form=st.sampled_from(["export HF_TOKEN={}", "#export HF_TOKEN={} # x", "HF_TOKEN={} exec python", "python --api-key {} --tp 4",
                                            "python --api-key={} \\\n --tp 4", "export A=1 MY_SECRET={}; true"]))  # fmt: skip
def test_no_secret_in_any_quotes_is_left(secret: str, form: str) -> None:
    assume(
        secret not in "#!/bin/bash " + form + " exec python"
    )  # hypothesis tries words of the code that it tests, too
    quoted = written(secret)
    masked = mask_text("#!/bin/bash\n" + form.format(quoted) + "\nexec python\n")

    assert secret not in masked
    assert quoted.strip("'\"") not in masked
    assert masked.endswith("\nexec python\n")


@pytest.mark.parametrize(
    "key",
    [
        "hf_exampleexampleexample",
        "sk-proj-0123456789abcdefghij",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "AKIAABCDEFGHIJKLMNOP",
    ],
)
def test_keys_of_a_known_form_are_masked_where_nothing_names_them(key: str) -> None:
    assert mask_text(f"401 for {key}, see log\n{key}") == f"401 for {MASK}, see log\n{MASK}"


@pytest.mark.parametrize(
    "text", ["hf_cache", "/models/hf_checkpoint_converted_2025", "risk-averse", "sk-learn", "SGLANG_hf_x"]
)
def test_what_only_begins_like_a_key_stays(text: str) -> None:
    assert mask_text(text) == text
