# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Who listens on a TCP port: /proc/net/tcp and the open files of the processes."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Set, Tuple

_LISTEN = "0A"


@dataclass(frozen=True)
class Listener:
    """One listening socket. ``pids`` are the processes that hold it, as far as this user may see them."""

    address: str
    port: int
    inode: int
    pids: Tuple[int, ...]


def parse_sockets(text: str, six: bool) -> List[Tuple[str, int, int]]:
    """(address, port, inode) of each listening socket in the text of /proc/net/tcp or tcp6 (proc_net(5))."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTEN:
            continue
        packed, port = fields[1].split(":")
        found.append((_address(packed, six), int(port, 16), int(fields[9])))
    return found


def _address(packed: str, six: bool) -> str:
    """The kernel prints each 32-bit word in the machine's own byte order."""
    words = [int(packed[at : at + 8], 16) for at in range(0, len(packed), 8)]
    data = struct.pack(f"={len(words)}I", *words)
    return socket.inet_ntop(socket.AF_INET6 if six else socket.AF_INET, data)


def _listening(port: int) -> List[Tuple[str, int]]:
    found = []
    for path, six in (("/proc/net/tcp", False), ("/proc/net/tcp6", True)):
        try:
            with open(path, encoding="ascii") as file:
                text = file.read()
        except OSError:
            continue
        found += [(address, inode) for address, at, inode in parse_sockets(text, six) if at == port]
    return found


def _holders(inodes: Set[int], pids: Iterable[int]) -> Dict[int, Set[int]]:
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: Dict[int, Set[int]] = {}
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            try:
                inode = wanted.get(os.readlink(f"{folder}/{name}"))
            except OSError:
                continue
            if inode is not None:
                found.setdefault(inode, set()).add(pid)
    return found


def listeners(port: int, likely: Iterable[int] = (), host: Optional[str] = None) -> List[Listener]:
    """The sockets that listen on a port, and the processes that hold them.

    :arg likely: pids to look at first; all others are searched only if these do not hold every socket.
    :arg host: leave out sockets bound to an address that a connection to this host would not reach.

    An empty ``pids`` means: not to be seen by this user (or held by the kernel), so
    unknown, not "nobody".
    """
    sockets = _listening(port)
    if host is not None:
        near = addresses_of(host)
        sockets = [(address, inode) for address, inode in sockets if not near or _reaches(address, near)]
    if not sockets:
        return []
    inodes = {inode for _address_text, inode in sockets}
    found = _holders(inodes, likely)
    missing = inodes - set(found)
    if missing:
        found.update(_holders(missing, (int(name) for name in os.listdir("/proc") if name.isdigit())))
    return [Listener(address, port, inode, tuple(sorted(found.get(inode, ())))) for address, inode in sockets]


def addresses_of(host: str) -> Set[str]:
    """The addresses that a host name stands for; empty when it is not known here."""
    try:
        return {str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return set()


def _reaches(bound: str, wanted: Set[str]) -> bool:
    if bound in ("0.0.0.0", "::"):  # noqa: S104 - read, not bound
        return True
    return bound in wanted or (bound.startswith("::ffff:") and bound[7:] in wanted)


def is_local(host: str) -> bool:
    """True when one of the host's addresses belongs to this machine (it can be bound)."""
    for address in addresses_of(host):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.bind((address, 0))
                return True
        except OSError:
            continue
    return False
