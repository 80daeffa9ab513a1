# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Lets the CUDA build of SGLang serve on CPU; on PYTHONPATH of the engines only.

1. Packages named in PDOPS_SHIM become importable. SGLang imports them at module level (CUDA kernels, images),
   and a text-only run on CPU never calls them: every attribute is an inert stand-in.
2. Where torch has no accelerator, pinned memory and CUDA events and streams do nothing. They only hint or
   order work of a device, and on CPU all work is done when the call returns.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from typing import Any

NAMES = frozenset(name for name in os.environ.get("PDOPS_SHIM", "").split(",") if name)
# transformers asks here which packages exist, and must see that these do not.
PROBE = os.path.join("transformers", "utils", "import_utils.py")


def _refuse_dunder(name: str) -> None:
    if name.startswith("__"):
        raise AttributeError(name)


class _InertType(type):
    def __getattr__(cls, name: str) -> Any:
        _refuse_dunder(name)
        return cls


class Inert(metaclass=_InertType):
    """Can be called, subscripted, subclassed, used as decorator; does nothing."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self

    def __class_getitem__(cls, _item: Any) -> Any:
        return cls

    def __getattr__(self, name: str) -> Any:
        _refuse_dunder(name)
        return self


class InertModule(types.ModuleType):
    __version__ = "0.0.0"
    __path__: list[str] = []  # noqa: RUF012 - a package must have one

    def __getattr__(self, name: str) -> Any:
        _refuse_dunder(name)
        return Inert


class InertFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages of PDOPS_SHIM and all below them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] not in NAMES:
            return None
        frame: Any = sys._getframe(1)
        for _ in range(6):
            if frame is None:
                break
            if frame.f_code.co_filename.endswith(PROBE):
                return None
            frame = frame.f_back
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return InertModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Event:
    """A CUDA event on CPU: always complete."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def record(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    wait = record

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, _other: Any) -> float:
        return 0.0


class Stream:
    """A CUDA stream on CPU: always empty."""

    device: Any = None
    cuda_stream = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def synchronize(self, *_args: Any) -> None:
        pass

    wait_stream = wait_event = synchronize

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_args: Any) -> None:
        pass


def calm(torch: Any) -> None:
    """Take what only a device can do out of the torch that was just imported."""
    if torch.cuda.is_available():
        return

    def without_pinning(function: Any) -> Any:
        def call(*args: Any, pin_memory: bool = False, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return call

    for name in ("empty", "zeros", "ones", "full", "tensor", "arange", "empty_like", "zeros_like"):
        setattr(torch, name, without_pinning(getattr(torch, name)))
    torch.Tensor.pin_memory = lambda self, *_args, **_kwargs: self
    Stream.device = torch.device("cpu")
    torch.cuda.Event = Event
    torch.cuda.current_stream = lambda *_args, **_kwargs: Stream()
    torch.cuda.synchronize = lambda *_args, **_kwargs: None
    if hasattr(torch.cuda, "streams"):
        torch.cuda.streams.Event = Event


class TorchFinder(importlib.abc.MetaPathFinder):
    """Stands in front of the import of torch once, and calls calm() behind it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            load(module)
            calm(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if NAMES:
    sys.meta_path[:0] = [TorchFinder(), InertFinder()]
