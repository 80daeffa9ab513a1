# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How many instances a lab has, on how many machines, and what each is called."""

from __future__ import annotations

from dataclasses import asdict, dataclass

#: Where several machines are played, what one asks of another must not look like a loopback address, which would mean
#: the asking machine itself; and this address, of which Linux makes loopback, is there without any network.
SHARED_HOST = "0.0.0.0"


@dataclass(frozen=True)
class Member:
    """One instance. ``which`` is its role, with a number where there are several of it."""

    name: str
    role: str
    which: str
    unit: str
    script: str
    machine: str


@dataclass(frozen=True)
class Shape:
    """One prefill, one decode and one router on one machine is the field's deployment, and the default."""

    name: str = "lab"
    prefills: int = 1
    decodes: int = 1
    machines: int = 1
    tensor_parallel: int = 4  # each rank of a simulated engine is a process of its own

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    @property
    def usual(self) -> bool:
        return (self.prefills, self.decodes, self.machines) == (1, 1, 1)

    @property
    def host(self) -> str:
        return "127.0.0.1" if self.machines == 1 else SHARED_HOST

    def _which(self) -> list[tuple[str, str]]:
        """Role, and the role with its number, in start order."""
        found = []
        for role, count in (("prefill", self.prefills), ("decode", self.decodes)):
            found += [(role, role if count == 1 else f"{role}-{number}") for number in range(1, count + 1)]
        return [*found, ("router", "router")]

    def _machine(self, place: int, count: int) -> str:
        """As even as it goes; of two machines the first has the prefills, the second all others."""
        if self.machines == 1:
            return self.name
        return f"{self.name}-m{self.machines - (count - 1 - place) * self.machines // count}"

    @property
    def members(self) -> list[Member]:
        which = self._which()
        return [
            Member(
                f"{self.name}-{called}",
                role,
                called,
                f"sglang-dsv4-{called}",
                f"serve_dsv4_{called.replace('-', '_')}.sh",
                self._machine(place, len(which)),
            )
            for place, (role, called) in enumerate(which)
        ]

    def of(self, role: str) -> list[Member]:
        return [member for member in self.members if member.role == role]

    @property
    def ports(self) -> list[str]:
        """What needs a port, in the order of the block."""
        if self.usual:
            return ["prefill", "decode", "router", "metrics", "bootstrap", "prefill-nccl", "decode-nccl", "proxy"]
        bootstraps = [bootstrap_of(member) for member in self.of("prefill")]
        return [*(member.which for member in self.members), "metrics", "proxy", *bootstraps]


def bootstrap_of(member: Member) -> str:
    """The name of a prefill's bootstrap port."""
    return member.which.replace("prefill", "bootstrap")
