"""Declare the links of chains of dependent instructions, and tell what each load has in common with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.lowering.program import Step
from tracegen.ptx.timing.store_order import NONE

SECTOR = 32
"""Bytes that a load brings into the L1."""

ACCESS = "access"
"""Class of the instructions of a link that access memory."""


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product: its type, its operations per warp, and whether the warp goes on at once.

    Types are those of `rdmodel.trace.work.MATRIX_TYPES`. Asynchronous products (``wgmma``) that add to the same
    registers follow one another without a wait for results.
    """

    type: str
    flops: int
    asynchronous: bool


@dataclass(frozen=True, slots=True)
class Link:
    """A step in a chain: the slots that it reads and writes, and its `latency`, by name ("" for none).

    Other links and steps are told by their numbers, and none by -1. `branch` is the step of the branch whose predicate
    the link has. A load takes `registers` until the link `last_use`, while `held` registers have other values; `held`
    is negative if this is unknown. The load does not start before the store `behind`, which is one of the iteration
    before if it does not precede the load. Another load of the same sector, the `leader`, brings its data into the L1.
    A leader and its followers take the registers of a `group`. `classes` are the machine instructions of the link,
    where an access to memory is one of the class `ACCESS`; one of them may be a matrix product.
    """

    src: tuple[int, ...]
    dst: tuple[int, ...]
    latency: str
    memory: bool
    branch: int = NONE
    registers: int = 0
    last_use: int = 0
    held: int = -1
    behind: int = NONE
    leader: int = NONE
    group: int = 0
    pc: int = NONE
    copies: bool = False
    classes: Mapping[str, int] = field(default_factory=dict)
    product: Product | None = None

    @property
    def is_early(self) -> bool:
        """Whether the assembler needs registers to start the link early: a load that takes long."""
        return self.registers > 0 and self.held >= 0 and self.latency != "load_shared"


def with_products(links: Sequence[Link], steps: Sequence[Step]) -> list[Link]:
    """Return links of which the first one of each matrix product has what all steps of the product read and write.

    `steps` are those of the links. A product has several, since it has more operands than a step, but starts once.
    """
    found: list[Link] = []
    for _, group in groupby(zip(links, steps, strict=True), key=lambda pair: id(pair[1].origin)):
        own = [link for link, _ in group]
        if own[0].product is not None:
            read, written = dict[int, None](), dict[int, None]()
            for link in own:
                read |= dict.fromkeys(slot for slot in link.src if slot not in written)
                written |= dict.fromkeys(link.dst)
            rest = [replace(link, src=(), dst=()) for link in own[1:]]
            own = [replace(own[0], src=tuple(read), dst=tuple(written)), *rest]
        found += own
    return found


def latency_of(link: Link, latencies: Mapping[str, float]) -> float:
    """Return the cycles from the start of a link to its results: those of its own instruction where they are known."""
    if not link.latency:
        return 0.0
    mean = latencies[link.latency]
    return latencies.get(f"{link.latency}:{link.pc}", mean) if link.memory else mean


def depth_of(product: Product, latencies: Mapping[str, float]) -> float:
    """Return the cycles from the end of the occupation of a tensor core by a product to its result."""
    sums = product.type.partition("_")[2]
    return latencies.get(f"matrix_depth_{sums}", latencies["matrix_depth"])


def with_lifetimes(links: Sequence[Link], alive: Sequence[int]) -> list[Link]:
    """Return links with the last uses of what loads have loaded, and the registers that are held beside it.

    `alive` are the registers that are live at each link, or -1.
    """
    last_use: dict[int, int] = {}
    loaded: dict[int, int] = {}
    for at, link in enumerate(links):
        for slot in link.src:
            if slot in loaded:
                last_use[loaded[slot]] = at
        for slot in link.dst:
            loaded.pop(slot, None)
        if link.registers:
            last_use[at] = len(links)  # until there is a use
            loaded |= dict.fromkeys(link.dst, at)
    found, under_way = [], dict[int, int]()
    for at, (link, registers) in enumerate(zip(links, alive, strict=True)):
        if not link.registers:
            found.append(link)
            continue
        under_way = {end: taken for end, taken in under_way.items() if end >= at}
        held = registers - link.registers - sum(under_way.values()) if registers >= 0 else -1
        under_way[last_use[at]] = under_way.get(last_use[at], 0) + link.registers
        found.append(replace(link, last_use=last_use[at], held=max(0, held) if registers >= 0 else -1))
    return found


def with_leaders(links: Sequence[Link], steps: Sequence[Step]) -> list[Link]:
    """Return links with the leader and the group of each load from global memory; `steps` are those of the links.

    Loads of a thread read the same sector if their addresses are offsets of one register; the register is taken to be
    aligned.
    """
    leaders: dict[int, dict[int, int]] = {}
    groups = [0] * len(links)
    of = [NONE] * len(links)
    for at, (link, step) in enumerate(zip(links, steps, strict=True)):
        if step.op == "LOAD" and link.latency in ("load_global", "load_alone"):
            leader = leaders.setdefault(step.src[0], {}).setdefault(step.offset // SECTOR, at)
            of[at] = leader if leader != at else NONE
            groups[leader] += link.registers
        for slot in link.dst:
            leaders.pop(slot, None)
    return [
        replace(link, leader=leader, group=group) if leader != NONE or group else link
        for link, leader, group in zip(links, of, groups, strict=True)
    ]
