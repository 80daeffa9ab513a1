# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a template of a serve script needs to know: the command of a prefill, decode or router, word by word.

Words are not quoted here; the templates quote each of them by the shell's rules.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional
from urllib.parse import urlsplit

from ..deployment import Instance
from ..mistakes import Mistakes
from ..pdops_error import PdopsError
from .knob_block import BEGIN, END, merge_knobs
from .options import Words, check_word, merge_options, read_options

#: The variables of an instance that are looked at, beside those of :func:`..deployment.instance_from_variables`.
VARIABLES = (
    "pd_deployment",
    "pd_venv",
    "pd_python",
    "pd_engine_module",
    "pd_router_module",
    "pd_offline",
    "pd_model_path",
    "pd_gpus",
    "pd_numa_node",
    "pd_numactl",
    "pd_listen",
    "pd_engine_config",
    "pd_pair_arguments",
    "pd_arguments",
    "pd_pair_knobs",
    "pd_knobs",
)

_ENGINE_OWNED = {
    "model-path": "pd_model_path",
    "host": "pd_listen",
    "port": "pd_url",
    "disaggregation-mode": "the instance's role",
    "disaggregation-bootstrap-port": "pd_bootstrap_port of the prefill",
    "base-gpu-id": "pd_gpus (CUDA_VISIBLE_DEVICES), since --numa-node counts from the process's own first GPU",
    "gpu-id-step": "pd_gpus",
    "numa-node": "pd_numa_node",
    "config": "pd_engine_config",
}
_ROUTER_OWNED = {
    "pd-disaggregation": "the instance's role",
    "prefill": "the prefill instances of the deployment",
    "decode": "the decode instances of the deployment",
    "worker-urls": "the instances of the deployment",
    "host": "pd_listen",
    "port": "pd_url",
    "prometheus-host": "pd_metrics_url",
    "prometheus-port": "pd_metrics_url",
}
#: Counts, which argparse refuses only on the machine when they are no numbers.
_WHOLE = ("tp-size", "pp-size", "dp-size", "ep-size", "nnodes", "page-size", "max-running-requests")
_ENGINE_KEY = "put it into a YAML file with mode 0600 on the machine and name that file in pd_engine_config."
# sglang-router 0.3.2 reads neither a file nor its environment for these (router_args.py). It hands a client's Authorization header
# on to both engines (tried with the real router).
_ROUTER_KEY = (
    "the router takes it in no other way, so leave it out: the router hands a client's key on, and the engines check it "
    "when they have theirs by pd_engine_config."
)
#: The router's own defaults notice a dead worker after three minutes; a pair of workers needs seconds.
_ROUTER_DEFAULTS: dict[str, Optional[Words]] = {
    "policy": ("--policy", "cache_aware"),
    "health-check-interval-secs": ("--health-check-interval-secs", "5"),
    "health-failure-threshold": ("--health-failure-threshold", "2"),
    "cb-timeout-duration-secs": ("--cb-timeout-duration-secs", "15"),
}


@dataclass(frozen=True)
class Launch:
    """What the templates see as ``pd_launch``.

    :ivar activate: the file to source first; None without ``pd_venv``
    :ivar exports: what the template itself exports, in the knob block
    :ivar program: the words of the program
    :ivar arguments: its arguments, grouped as they are to stand on one line
    :ivar knobs: the knobs that are filled in after the template is rendered
    :ivar secret_files: files of keys that the command names; they must be private on the machine
    """

    instance: str
    role: str
    deployment: str
    activate: Optional[str]
    exports: dict[str, str]
    program: Words
    arguments: tuple[Words, ...]
    knobs: dict[str, str]
    secret_files: tuple[str, ...] = ()
    knobs_begin: str = BEGIN
    knobs_end: str = END

    def as_dict(self) -> dict[str, Any]:
        data = asdict(self)
        data.update(
            program=list(self.program),
            arguments=[list(words) for words in self.arguments],
            secret_files=list(self.secret_files),
        )
        return data


def launch_of(
    instance: Instance, peers: Sequence[Instance], variables: Mapping[str, Any], cache: Optional[str] = None
) -> Launch:
    """The command of an instance.

    :param peers: all instances of its deployment, itself among them or not
    :param variables: its inventory variables; of them ``VARIABLES`` are read
    :param cache: the folder for what engines compile, when deploy makes one
    :raises PdopsError: a variable is missing, wrong, contradicts another one, or holds a secret; the sentence names both
    """
    role, who = instance.role, instance.name
    wrong = Mistakes()
    exports = {"SPT_NOENV": "1"}
    if wrong.take(lambda: _flag(who, variables, "pd_offline"), False):
        exports.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    secret_files: tuple[str, ...] = ()
    arguments: list[Words]
    if role == "router":
        module = wrong.take(lambda: _text(who, variables, "pd_router_module"), None) or "sglang_router.launch_router"
        arguments = wrong.take(lambda: _router(instance, peers, variables), [])
        pair_knobs: Mapping[str, Any] = {}
    else:
        module = wrong.take(lambda: _text(who, variables, "pd_engine_module"), None) or "sglang.launch_server"
        config = wrong.take(lambda: _config(who, variables), None)
        secret_files = (config,) if config else ()
        gpus = wrong.take(lambda: _gpus(who, variables.get("pd_gpus")), [])
        exports["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        if cache:
            # SGLang has Triton, Inductor, FlashInfer and TileLang compile below it.
            exports["SGLANG_CACHE_DIR"] = cache
        arguments = wrong.take(lambda: _engine(instance, peers, variables, gpus, config), [])
        pair_knobs = variables.get("pd_pair_knobs") or {}
    wanted = wrong.take(lambda: merge_knobs(pair_knobs, variables.get("pd_knobs") or {}, who), {})
    for name, value in exports.items():
        if wanted.pop(name, value) != value:
            better = {
                "CUDA_VISIBLE_DEVICES": "set pd_gpus",
                "SPT_NOENV": "gate effective needs it",
            }
            wrong.add(
                f"{who}: {name} is written by the template as {value}; take it out of the knobs ({better.get(name, 'see pd_offline')})."
            )
    venv = wrong.take(lambda: _absolute(who, variables, "pd_venv"), None)
    numactl = wrong.take(lambda: _numactl(who, variables), ())
    python = wrong.take(lambda: _text(who, variables, "pd_python"), None)
    wrong.refuse()
    return Launch(
        instance=_comment(who),
        role=role,
        deployment=_comment(_text(who, variables, "pd_deployment") or ""),
        activate=f"{venv}/bin/activate" if venv else None,
        exports=exports,
        program=(*numactl, python or "python", "-m", module),
        arguments=tuple(arguments),
        knobs=wanted,
        secret_files=secret_files,
    )


def _engine(
    instance: Instance, peers: Sequence[Instance], variables: Mapping[str, Any], gpus: list[str], config: Optional[str]
) -> list[Words]:
    who = instance.name
    wrong = Mistakes()
    before = len(wrong.said)
    model = wrong.take(lambda: _text(who, variables, "pd_model_path"), None)
    if not model and len(wrong.said) == before:
        wrong.add(f"{who}: pd_model_path is not set; give the model's folder on the machine, or its name.")

    def read(name: str) -> dict[str, Optional[Words]]:
        return read_options(f"{who}: {name}", variables.get(name) or {}, _ENGINE_OWNED, _ENGINE_KEY)

    before = len(wrong.said)
    pair = wrong.take(lambda: read("pd_pair_arguments"), {})
    unread = len(wrong.said) > before
    own = wrong.take(lambda: read("pd_arguments"), {})
    options = {**pair, **own} if unread else wrong.take(lambda: merge_options(who, pair, own), {**pair, **own})
    if not unread and not options.get("disaggregation-transfer-backend"):
        wrong.add(
            f"{who}: pd_pair_arguments does not name the disaggregation-transfer-backend, and SGLang would silently take mooncake; write it, for example nixl."
        )
    wrong.take(lambda: _check_size(who, options, gpus), None)
    if "enable-metrics" not in options:
        options["enable-metrics"] = ("--enable-metrics",)
    host, port = wrong.take(lambda: _listen(instance, variables), ("", ""))
    bootstrap = wrong.take(lambda: _bootstrap(instance, peers), 0)
    # Without GPUs, which has been told, nobody can say how many nodes there are to be.
    nodes = wrong.take(lambda: _numa_nodes(who, variables.get("pd_numa_node"), gpus), []) if gpus else []
    wrong.refuse()
    arguments = [
        ("--model-path", model or ""),
        ("--host", host, "--port", port),
        ("--disaggregation-mode", instance.role, "--disaggregation-bootstrap-port", str(bootstrap)),
    ]
    if nodes:
        arguments.append(("--numa-node", *nodes))
    arguments += [words for words in options.values() if words]
    if config:
        arguments.append(("--config", config))
    return arguments


def _router(instance: Instance, peers: Sequence[Instance], variables: Mapping[str, Any]) -> list[Words]:
    who = instance.name
    prefills = [peer for peer in peers if peer.role == "prefill"]
    decodes = [peer for peer in peers if peer.role == "decode"]
    if not prefills or not decodes:
        raise PdopsError(f"{who}: its deployment has no {'prefill' if not prefills else 'decode'} to route to.")
    own = read_options(f"{who}: pd_arguments", variables.get("pd_arguments") or {}, _ROUTER_OWNED, _ROUTER_KEY)
    host, port = _listen(instance, variables)
    given = _text(who, variables, "pd_listen")
    if given and router_address(given) != given:
        raise PdopsError(f"{who}: pd_listen is {given!r}; the router takes an IP address only, as in 0.0.0.0 for all.")
    arguments: list[Words] = [("--pd-disaggregation",)]
    arguments += [("--prefill", peer.url, str(_bootstrap(peer, peers))) for peer in prefills]
    arguments += [("--decode", peer.url) for peer in decodes]
    arguments.append(("--host", router_address(host), "--port", port))
    # The router binds its metrics to all addresses unless told otherwise.
    metrics: Words = ("--prometheus-host", "127.0.0.1")
    if instance.metrics_url:
        parts = urlsplit(instance.metrics_url)
        at = router_address(parts.hostname or "127.0.0.1")
        metrics = ("--prometheus-host", at, "--prometheus-port", str(parts.port or 29000))
    arguments.append(metrics)
    arguments += [words for words in {**_ROUTER_DEFAULTS, **own}.values() if words]
    return arguments


def router_address(host: str) -> str:
    """Where a router listens that is reached as ``host``: on all addresses where that is a name.

    sglang-router 0.3.2 ends at its start with a name ("invalid socket address syntax"); the engines take one.
    """
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return "127.0.0.1" if host == "localhost" else "0.0.0.0"  # noqa: S104 - the name says that others reach it


def _bootstrap(instance: Instance, peers: Sequence[Instance]) -> int:
    """The port of the bootstrap server; of a decode, that of its prefill, which both must name alike."""
    if instance.role == "prefill":
        return instance.bootstrap_port or 8998
    ports = sorted({peer.bootstrap_port or 8998 for peer in peers if peer.role == "prefill"})
    if not ports:
        raise PdopsError(f"{instance.name}: its deployment has no prefill, whose bootstrap port it needs.")
    told = ", ".join(map(str, ports))
    if instance.bootstrap_port is not None:
        if instance.bootstrap_port not in ports:
            raise PdopsError(
                f"{instance.name}: pd_bootstrap_port is {instance.bootstrap_port}, but that of prefill is {told}; leave it out on decode."
            )
        return instance.bootstrap_port
    if len(ports) > 1:
        raise PdopsError(
            f"{instance.name}: the prefills have different bootstrap ports ({told}); give decode one of them as pd_bootstrap_port."
        )
    return ports[0]


def _listen(instance: Instance, variables: Mapping[str, Any]) -> tuple[str, str]:
    parts = urlsplit(instance.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return _text(instance.name, variables, "pd_listen") or parts.hostname or "127.0.0.1", str(port)


def _gpus(who: str, given: object) -> list[str]:
    items = given if isinstance(given, (list, tuple)) else str(given).split(",") if given is not None else []
    gpus = [check_word(f"{who}: pd_gpus", item).strip() for item in items]
    if not gpus:
        raise PdopsError(f"{who}: pd_gpus is not set; list the GPUs of this engine, as in [4, 5, 6, 7].")
    if not all(re.fullmatch(r"[0-9]+|(?:GPU|MIG)-[A-Za-z0-9/-]+", gpu) for gpu in gpus):
        raise PdopsError(f"{who}: pd_gpus is {given!r}; list the GPUs of this engine, as in [4, 5, 6, 7].")
    if len(set(gpus)) != len(gpus):
        raise PdopsError(f"{who}: pd_gpus is {given!r}, with a GPU in it twice; list each once.")
    return gpus


def _numa_nodes(who: str, given: object, gpus: list[str]) -> list[str]:
    """One node for each GPU that the process sees: SGLang indexes the list by the process's own GPU id."""
    if given is None:
        return []
    items = list(given) if isinstance(given, (list, tuple)) else [given] * len(gpus)
    nodes = [check_word(f"{who}: pd_numa_node", item) for item in items]
    if not all(node.isdigit() for node in nodes) or len(nodes) != len(gpus):
        raise PdopsError(
            f"{who}: pd_numa_node is {given!r}; give one node for all, or a list of {len(gpus)}, one for each of pd_gpus."
        )
    return nodes


def _numactl(who: str, variables: Mapping[str, Any]) -> Words:
    """numactl in front of the program; it replaces itself by it, so signals reach the engine."""
    given = variables.get("pd_numactl")
    if given is None:
        return ()
    words = given.split() if isinstance(given, str) else given
    if not isinstance(words, (list, tuple)) or not words or not all(str(word).startswith("-") for word in words):
        raise PdopsError(
            f"{who}: pd_numactl is {given!r}; list options of numactl, as in [--cpunodebind=0, --membind=0]."
        )
    return ("numactl", *(check_word(f"{who}: pd_numactl", word) for word in words))


def _check_size(who: str, options: Mapping[str, Optional[Words]], gpus: list[str]) -> None:
    for name in _WHOLE:
        words = options.get(name)
        if words and not (len(words) == 2 and re.fullmatch(r"[1-9][0-9]{0,5}", words[1])):
            told = " ".join(words[1:]) or "true"
            raise PdopsError(
                f"{who}: {name} is {told!r} in its arguments; it must be a whole number above 0, as in {name}: 4."
            )
    if options.get("nnodes") or not gpus:
        return
    size = 1
    for name in ("tp-size", "pp-size"):
        words = options.get(name)
        size *= int(words[1]) if words else 1
    if size > len(gpus):
        raise PdopsError(
            f"{who}: tp-size times pp-size is {size}, but pd_gpus lists {len(gpus)}; give it as many GPUs."
        )


def _config(who: str, variables: Mapping[str, Any]) -> Optional[str]:
    path = _absolute(who, variables, "pd_engine_config")
    if path and not path.lower().endswith((".yaml", ".yml")):
        raise PdopsError(f"{who}: pd_engine_config is {path}; SGLang takes only a file that ends in .yaml or .yml.")
    return path


def _absolute(who: str, variables: Mapping[str, Any], name: str) -> Optional[str]:
    text = _text(who, variables, name)
    if text and not os.path.isabs(text):
        raise PdopsError(f"{who}: {name} is {text!r}; it must be an absolute path on the machine.")
    return text.rstrip("/") if text else None


def _text(who: str, variables: Mapping[str, Any], name: str) -> Optional[str]:
    value = variables.get(name)
    return None if value is None or value == "" else check_word(f"{who}: {name}", value)


def _flag(who: str, variables: Mapping[str, Any], name: str) -> bool:
    value = variables.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise PdopsError(f"{who}: {name} is {value!r}; it must be true or false.")


def _comment(text: str) -> str:
    """As a comment of the script may show it."""
    return re.sub(r"[^\x20-\x7e]", "?", text)
