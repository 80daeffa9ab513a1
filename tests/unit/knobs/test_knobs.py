# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import os

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.knobs import (
    check_name,
    check_value,
    is_secret,
    refuse_secret,
)
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError

HERE = os.path.dirname(__file__)


class _TaggedText(str):
    """As Ansible hands strings over: a str, but not just one."""


@pytest.mark.parametrize("name", ["SGLANG_LOG_MS", "_x", "A1", "no_proxy"])
def test_names_that_bash_can_export_are_taken(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=1", "A\n", "Ä", "A.B", "$A"])
def test_other_names_are_refused_with_the_name_in_the_sentence(name: str) -> None:
    with pytest.raises(PdopsError, match="cannot be the name of a knob"):
        check_name(name)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (512, "512"),
        (-1, "-1"),
        (0, "0"),
        ("a b", "a b"),
        ("", ""),
        (None, None),
        ("yes", "yes"),
        ("010", "010"),
        ("é", "é"),
    ],
)
def test_strings_and_integers_are_taken_and_null_unsets(value: object, text: object) -> None:
    assert check_value("A", value) == text


class _TaggedFloat(float):
    """Ansible's own classes must not show in a sentence for people."""


class _TaggedList(list):  # type: ignore[type-arg]
    pass


def test_a_tagged_string_is_taken_as_plain_text() -> None:
    assert check_value("A", _TaggedText("512")) == "512"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (True, "boolean true"),
        (False, "boolean false"),
        (1.5, "is the number 1.5"),
        (["a"], "a list"),
        ({"a": 1}, "a mapping"),
        (b"a", "a sequence of bytes"),
        (_TaggedFloat(1.5), "is the number 1.5"),
        (_TaggedList(["a"]), "a list"),
        ("a\0b", "NUL"),
        ("a\nb", "line end"),
        ("\ud800", "UTF-8"),
    ],
)
def test_what_yaml_made_of_an_unquoted_value_is_refused(value: object, said: str) -> None:
    with pytest.raises(PdopsError, match=said):
        check_value("SGLANG_X", value)


def test_of_the_registrys_770_names_one_is_secret() -> None:
    with open(os.path.join(HERE, "sglang-envs-0.5.23.txt")) as file:
        names = file.read().split()

    assert len(names) == 770
    assert [name for name in names if is_secret(name)] == ["EXA_API_KEY"]


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN", "SGLANG_API_KEY", "VLLM_API_KEY", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN", "OPENAI_API_KEY", "DB_PASSWORD", "MYSQL_PWD", "PGPASS_X_PASS", "MY_SECRET", "TOKEN", "API_KEY_2",
        "GOOGLE_CREDENTIALS", "SSH_PRIVATE_KEY", "hf_token", "api-key", "admin-api-key", "ssl-keyfile-password", "API_KEYS",
        "WANDB_API_KEY", "NGC_API_KEY", "KEY", "AUTH_TOKENS", "SGLANG_ADMIN_API_KEY",
        "PGPASSWORD", "APITOKEN", "HFTOKEN", "hfToken", "SECRETKEY", "secretAccessKey", "ACCESSKEY", "HF_TOKEN_PROD", "SGLANG_TOKEN_VALUE",
        "PASSWORD2", "GITHUB_PAT", "JWT", "AUTH_JWT", "CREDS", "DB_CREDS", "ENCRYPTION_KEYS", "apiKey", "x-api-key", "API_TOKEN_STAGING_2",
        "HF_TOKEN_FOR_CI", "SESSION_COOKIE", "REDISCLI_AUTH", "MYSQL_ROOT_PASSWORD", "accountKey", "TOKEN_B64",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)
    with pytest.raises(PdopsError, match="0600"):
        refuse_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZERS_PARALLELISM", "SGLANG_MAX_NEW_TOKENS", "PWD", "OLDPWD", "HF_TOKEN_PATH", "API_KEY_FILE", "SSL_KEYFILE", "PUBLIC_KEY",
        "CACHE_KEY", "NCCL_DEBUG", "KEYS_PER_BATCH", "MONKEY", "SGLANG_PER_TOKEN", "EOS_TOKEN", "PASSES", "MAX_DELAY_PASSES", "AUTHOR",
        "tokenizer-path", "SORT_KEY", "SECRET_NAME", "BYPASS", "key_value", "keyValue", "maxNewTokens", "nextToken", "num_tokens", "keys",
        "SECRETARY", "secretName", "secretKeyRef", "PATH", "PATCH", "PATTERN", "COMPASS", "KEYBOARD", "cached-token", "jwt-issuer", "NOPASSWD",
        "passthrough", "authority", "KEEPALIVE_S", "tiktoken", "PASSWORDLESS", "CUDA_ARCH_PAT_COUNT", "PAT", "AUTH",
    ],
)  # fmt: skip
def test_names_that_only_look_like_it(name: str) -> None:
    assert not is_secret(name)
    refuse_secret(name)
