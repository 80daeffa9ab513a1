# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The command line, with SGLang's flag names.

Unlike the real one, a flag that this file does not know is no error: it is kept and shown in /server_info,
so that the scripts of the field run unchanged.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

VERSION = "0.5.23-simulation"
_RECORDED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "shapes" / "server_info.json").read_text())


def shape(part: str) -> dict[str, Any]:
    """A part of the /server_info of an idle decode, recorded from 0.5.23: arguments, top (what is there once only), internal."""
    return _RECORDED[part]


# Where the recorded launch (a tiny model on CPU) had said something, what the real engine takes when nothing is said.
DEFAULTS: dict[str, Any] = {
    "model_path": "/models/tiny",
    "tokenizer_path": None,
    "load_format": "auto",
    "trust_remote_code": False,
    "context_length": 131072,
    "dtype": "auto",
    "quantization": None,
    "kv_cache_dtype": "auto",
    "mem_fraction_static": 0.846,
    "max_running_requests": 256,
    "max_queued_requests": None,
    "max_total_tokens": 1048576,
    "chunked_prefill_size": 8192,
    "schedule_policy": "fcfs",
    "page_size": 1,
    "disable_radix_cache": False,
    "nnodes": 1,
    "node_rank": 0,
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "ep_size": 1,
    "attn_cp_size": 1,
    "load_balance_method": "round_robin",
    "enable_dp_attention": False,
    "device": "cuda",
    "base_gpu_id": 0,
    "random_seed": 249738137,
    "watchdog_timeout": 300,
    "soft_watchdog_timeout": None,
    "host": "127.0.0.1",
    "port": 30000,
    "skip_server_warmup": False,
    "sleep_on_idle": False,
    "api_key": None,
    "admin_api_key": None,
    "served_model_name": None,
    "weight_version": "default",
    "chat_template": None,
    "reasoning_parser": None,
    "tool_call_parser": None,
    "stream_interval": 1,
    "log_level": "info",
    "log_requests": False,
    "enable_metrics": False,
    "decode_log_interval": 40,
    "load_snapshot_publish_interval": 15,
    "attention_backend": "flashinfer",
    "sampling_backend": "flashinfer",
    "moe_runner_backend": "auto",
    "moe_a2a_backend": "none",
    "disable_cuda_graph": False,
    "disaggregation_mode": "null",
    "disaggregation_transfer_backend": "mooncake",
    "disaggregation_bootstrap_port": 8998,
    "disaggregation_ib_device": None,
    "disaggregation_decode_enable_radix_cache": False,
    "disaggregation_decode_retraction_backup": "auto",
    "disaggregation_decode_extra_slots": 0,
    "disaggregation_decode_polling_interval": 1,
    "disaggregation_decode_allocation_policy": "early",
    "disaggregation_enable_kv_checksum": False,
}
_ALIASES = {
    "model": "model_path",
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "ep": "ep_size",
    "pp": "pp_size",
}
_NUMBERS = {
    "port", "tp_size", "dp_size", "page_size", "max_running_requests", "max_total_tokens",
    "disaggregation_bootstrap_port", "decode_log_interval", "context_length",
}  # fmt: skip


class BadFlag(Exception):
    """Message as argparse would write it."""


@dataclass(frozen=True)
class Options:
    args: dict[str, Any]  # field name to value, secrets included: never log it
    launch_command: str  # what was asked for, secrets masked

    @property
    def role(self) -> str:
        """prefill, decode or null."""
        return str(self.args["disaggregation_mode"])

    def number(self, name: str) -> int:
        return int(self.args[name])

    @property
    def shown(self) -> dict[str, Any]:
        """For /server_info: as the real one, without the keys' values."""
        return {k: ("********" if k.endswith("api_key") and v else v) for k, v in self.args.items()}


def _value(text: str) -> Any:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"-?\d*\.\d+", text):
        return float(text)
    if text[:1] in "{[":
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _config(path: str) -> dict[str, Any]:
    """A YAML file of flags; the command line wins over it. Engines' secrets come this way."""
    try:
        with open(path, encoding="utf-8") as file:
            found = yaml.safe_load(file) or {}
    except (OSError, yaml.YAMLError) as error:
        raise BadFlag(f"argument --config: cannot read {path}: {error}") from None
    if not isinstance(found, dict):
        raise BadFlag(f"argument --config: {path} is no mapping of flags to values")
    return {_field(str(name)): value for name, value in found.items()}


def _field(flag: str) -> str:
    name = flag.lstrip("-").replace("-", "_")
    return _ALIASES.get(name, name)


def parse(argv: list[str]) -> Options:
    """Raises BadFlag."""
    given: dict[str, Any] = {}
    words: list[str] | None = None
    found: list[tuple[str, list[str]]] = []
    for word in argv:
        if word.startswith("--") and len(word) > 2:
            flag, sign, value = word.partition("=")
            words = [value] if sign else []
            found.append((_field(flag), words))
        elif words is None:
            raise BadFlag(f"unrecognized arguments: {word}")
        else:
            words.append(word)
    for name, words in found:
        if len(words) > 1:
            given[name] = [_value(word) for word in words]
        else:
            given[name] = _value(words[0]) if words else True
        if name in ("served_model_name", "api_key", "admin_api_key", "model_path") and words:
            given[name] = words[0]
    if "config" in given:
        given = {**_config(str(given.pop("config"))), **given}
    args = {**shape("arguments"), **DEFAULTS, **given}
    for name in _NUMBERS:
        if not isinstance(args[name], int) or isinstance(args[name], bool):
            raise BadFlag(f"argument --{name.replace('_', '-')}: invalid int value: {args[name]!r}")
    if args["disaggregation_mode"] not in ("null", "prefill", "decode"):
        raise BadFlag(
            f"argument --disaggregation-mode: invalid choice: {args['disaggregation_mode']!r} "
            "(choose from 'null', 'prefill', 'decode')"
        )
    args["served_model_name"] = args["served_model_name"] or args["model_path"]
    args["tokenizer_path"] = args["tokenizer_path"] or args["model_path"]
    if args["disaggregation_mode"] == "decode":
        args["disable_radix_cache"] = not args["disaggregation_decode_enable_radix_cache"]
    return Options(args, _masked(argv))


def _masked(argv: list[str]) -> str:
    shown, hide = [], False
    for word in argv:
        flag, sign, _ = word.partition("=")
        secret = flag in ("--api-key", "--admin-api-key")
        shown.append("********" if hide else f"{flag}=********" if secret and sign else word)
        hide = secret and not sign
    return " ".join(shown)
