"""Write the probes of the H100's caches as plans for the launcher: `python -m validation.h100.probes FOLDER`.

The folder gets the modules, compiled by nvcc from `probes/`, and two plans: `probes.json`, whose launches a profiler
counts, and `probes_timed.json`, whose launches are timed without one. The name of a case is its probe and parameters,
``l1.shared kib=128``, so that a table follows from the names. The launcher ignores two keys of a launch: ``work``,
what it does exactly (sectors that are looked up, bytes, operations); and ``clocks``, where the cycles that it measures
are in `clocks.bin`, as 64-bit integers: ``{"at": byte, "count": numbers}``.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SMS = 132
KIB, MIB = 1 << 10, 1 << 20
CONTROL, SINK, CLOCKS, DATA = 0, 48 * KIB, 64 * KIB, 2 * MIB
"""Offsets in the pool: counters of barriers; where no result goes; cycles; and data."""
MODULES = ("l1", "stores", "l2", "rates")
SOURCES = Path(__file__).parent / "probes"
KINDS = {
    "none": 0,
    "load": 1,
    "store": 2,
    "load_cg": 3,
    "load_volatile": 4,
    "store_byte": 5,
    "reduce": 6,
    "load_nc": 7,
    "atomic": 8,
    "store_cg": 9,
    "store_wt": 10,
    "load_ca": 11,
}
"""Numbers of the accesses in `stores.cu`."""

Argument = dict[str, int | str]


def at(offset: int) -> Argument:
    """Return an argument that points into the pool."""
    return {"at": offset}


def value(kind: str, *numbers: float) -> Argument:
    """Return an argument with numbers, packed as `struct` does."""
    return {"hex": struct.pack(f"<{len(numbers)}{kind}", *numbers).hex()}


def words(*numbers: int) -> list[Argument]:
    """Return an argument for each number."""
    return [value("I", each) for each in numbers]


@dataclass
class Plan:
    """Launches, with a pool for data of so many bytes."""

    data_bytes: int
    times: int | None = None
    """Number of timed launches; None: as many as the launcher times."""
    launches: list[dict[str, Any]] = field(default_factory=list)
    clock_bytes: int = 0

    def clocks(self, count: int) -> dict[str, int]:
        """Return room for so many cycles, beginning at a line of its own."""
        found = {"at": self.clock_bytes, "count": count}
        self.clock_bytes += -(-8 * count // 128) * 128
        return found

    def add(
        self,
        probe: str,
        parameters: dict[str, object],
        kernel: str,
        grid: int,
        block: int,
        args: list[Argument],
        work: dict[str, float] | None = None,
        **more: Any,
    ) -> None:
        """Add a launch; `kernel` is a module and a name: ``l1.l1_read``."""
        module, name = kernel.split(".")
        launch: dict[str, Any] = {
            "case": " ".join([probe, *(f"{key}={each}" for key, each in parameters.items())]),
            "module": f"{module}.cubin",
            "kernel": name,
            "grid": [grid, 1, 1],
            "block": [block, 1, 1],
            "args": args,
            "work": work or {},
        }
        if self.times is not None:
            launch["times"] = self.times
        self.launches.append(launch | more)

    def write(self, path: Path) -> None:
        """Write the plan, after a check of its names and of where its clocks are."""
        names = [each["case"] for each in self.launches]
        if len(set(names)) < len(names) or self.clock_bytes > DATA - CLOCKS:
            raise ValueError(f"{path.name}: a case twice, or too many clocks")
        for each in self.launches:  # all of them after each launch, so that a failure costs one result only
            if "clocks" in each:
                each["read"] = {"at": CLOCKS, "bytes": self.clock_bytes, "file": "clocks.bin"}
        path.write_text(json.dumps({"pool": DATA + self.data_bytes, "launches": self.launches}, indent=1) + "\n")


def add_l1(plan: Plan, probe: str, kib: int) -> None:
    """Add a probe that reads so much data again and again."""
    own, alone, warp = probe == "l1.own", probe in ("l1.block", "l1.warp", "l1.carved"), probe == "l1.warp"
    blocks, rounds = (1 if alone else SMS), (10 if warp else 20)
    args = [at(DATA), *words(kib * KIB, kib * KIB if own else 0, rounds), at(SINK)]
    sectors = kib * KIB // 32
    work: dict[str, float] = {"load_sectors": blocks * rounds * sectors, "distinct_per_sm": sectors}
    kernel, more = ("l1.l1_read_carved", {"carveout": 100}) if probe == "l1.carved" else ("l1.l1_read", {})
    plan.add(probe, {"kib": kib}, kernel, blocks, 32 if warp else 1024, args, work, **more)


def l1_probes(plan: Plan) -> None:
    """Add miss ratios of the L1 over the size of data."""
    for probe, sizes in {
        "l1.shared": range(96, 289, 8),
        "l1.block": range(96, 289, 8),
        "l1.warp": range(192, 289, 16),
        "l1.own": range(192, 289, 16),
        "l1.carved": range(16, 41, 2),
    }.items():
        for kib in sizes:
            add_l1(plan, probe, kib)


@dataclass(frozen=True)
class Step:
    """Accesses of one kind, `stride` bytes apart, to the data of a block."""

    kind: str
    stride: int = 4
    offset: int = 0

    def sectors(self, kib: int) -> int:
        """Return the sectors that the accesses of a block look up."""
        return kib * KIB // max(self.stride, 32)


NO_STEP = Step("none", 0)
LOAD, STORE, BYTES = Step("load"), Step("store"), Step("store_byte", 1)
STORES: dict[str, tuple[tuple[Step, ...], tuple[tuple[int, int], ...]]] = {
    "load_store": ((LOAD, STORE), ((4, 132), (16, 132), (32, 132), (64, 132), (128, 132), (4, 1056), (16, 1056))),
    "store_store": ((STORE, STORE), ((4, 132), (16, 132), (32, 132), (64, 132), (128, 132), (4, 1056), (16, 1056))),
    "store_load": ((STORE, LOAD), ((4, 132), (32, 132), (128, 132), (16, 1056))),
    "store_load_same_word": ((Step("store", 32), Step("load", 32)), ((16, 132),)),
    "store_load_other_word": ((Step("store", 32), Step("load", 32, 4)), ((16, 132),)),
    "store_store_other_word": ((Step("store", 32), Step("store", 32, 4)), ((16, 132),)),
    "load_store_other_sector": ((Step("load", 128), *[Step("store", 128, 32)] * 2), ((16, 132),)),
    "load_store_load_other_sector": ((Step("load", 128), Step("store", 128, 32), Step("load", 128, 32)), ((16, 132),)),
    "load_store_load": ((LOAD, STORE, LOAD), ((16, 132), (128, 132))),
    "load_store_store": ((LOAD, STORE, STORE), ((16, 132),)),
    "store_load_store": ((STORE, LOAD, STORE), ((16, 132),)),
    "load_bytes_bytes": ((LOAD, BYTES, BYTES), ((16, 132),)),
    "bytes_bytes_load": ((BYTES, BYTES, LOAD), ((16, 132),)),
    "load_store_word": ((LOAD, Step("store", 32), Step("load", 32)), ((16, 132),)),
    "cg_store_store": ((Step("load_cg"), STORE, STORE), ((16, 132),)),
    "volatile_store_store": ((Step("load_volatile"), STORE, STORE), ((16, 132),)),
    "nc_store_load": ((Step("load_nc"), STORE, LOAD), ((16, 132),)),
    "ca_store_ca": ((Step("load_ca"), STORE, Step("load_ca")), ((16, 132),)),
    "load_volatile_load": ((LOAD, Step("load_volatile"), LOAD), ((16, 132),)),
    "load_storecg_load": ((LOAD, Step("store_cg"), LOAD), ((16, 132),)),
    "load_storewt_load": ((LOAD, Step("store_wt"), LOAD), ((16, 132),)),
    "load_reduce_load": ((LOAD, Step("reduce"), LOAD), ((16, 132),)),
    "load_atomic_load": ((LOAD, Step("atomic"), LOAD), ((16, 132),)),
    "load_reduce_store": ((LOAD, Step("reduce"), STORE), ((16, 132),)),
}
"""Accesses one after the other, and the data (KiB per block, blocks) on which they are done."""


def add_steps(plan: Plan, probe: str, steps: tuple[Step, ...], kib: int, blocks: int, twins: int = 0) -> None:
    """Add accesses with barriers between; 2^`twins` warps do each at about the same time."""
    work: dict[str, float] = {"load_sectors": 0, "store_sectors": 0, "atomic_sectors": 0}
    for step in steps:
        work[f"{step.kind.split('_')[0]}_sectors".replace("reduce", "atomic")] += step.sectors(kib) * blocks << twins
    packed = [
        number for each in (*steps, *[NO_STEP] * 3)[:3] for number in (KINDS[each.kind], each.stride, each.offset)
    ]
    args = [at(DATA), *words(kib * KIB, twins), value("I", *packed), at(SINK)]
    parameters: dict[str, object] = {"kib": kib, "blocks": blocks}
    if twins:
        parameters["warps"] = 1 << twins
    block = 1024 if blocks == SMS else 256
    plan.add(f"store.{probe}", parameters, "stores.store_steps", blocks, block, args, work)


def store_probes(plan: Plan) -> None:
    """Add hits of stores."""
    for probe, (steps, sizes) in STORES.items():
        for kib, blocks in sizes:
            add_steps(plan, probe, steps, kib, blocks)
    for twins in (1, 3):
        add_steps(plan, "twins", (STORE,), 16, SMS, twins)
    add_steps(plan, "load_twins", (LOAD, STORE), 16, SMS, 1)
    for first, second in (("load", "store"), ("store", "store"), ("store", "load"), ("load", "load")):
        args = [at(DATA), *words(16 * KIB, KINDS[first], KINDS[second]), at(CONTROL), at(SINK)]
        work: dict[str, float] = {"load_sectors": 0, "store_sectors": 0}
        for kind in (first, second):
            work[f"{kind}_sectors"] += SMS * 16 * KIB // 32
        names: dict[str, object] = {"first": first, "second": second, "kib": 16}
        plan.add(
            "store.neighbour", names, "stores.store_by_neighbour", 2 * SMS, 1024, args, work, clear=CLOCKS, shared=0
        )
    for limit, resident, block, shared in (
        ("threads", 2, 1024, 8),
        ("threads", 4, 512, 8),
        ("threads", 8, 256, 8),
        ("shared", 8, 256, 26),
        ("shared", 4, 256, 50),
        ("shared", 2, 256, 100),
        ("shared", 1, 256, 120),
    ):
        work = {"load_sectors": 32 * SMS * 256, "store_sectors": 32 * SMS * 256}
        names = {"resident": resident, "by": limit}
        plan.add("store.back", names, "stores.store_back", 32 * SMS, block, [at(DATA)], work, shared=shared * KIB)


def add_l2(plan: Plan, mib: int, rotation: int) -> None:
    """Add two rounds over so much data, by the same SMs or by others."""
    share = mib * MIB // SMS // 128 * 128
    args = [at(DATA), *words(share, rotation), at(CONTROL), at(SINK)]
    work: dict[str, float] = {"load_sectors": 2 * SMS * share // 32, "distinct_sectors": SMS * share // 32}
    parameters: dict[str, object] = {"mib": mib}
    if rotation:
        parameters["by"] = rotation
    more = {"shared": 120 * KIB, "clear": CLOCKS}  # shared memory, so that no SM has two blocks
    plan.add("l2.rotate" if rotation else "l2.own", parameters, "l2.l2_read_twice", SMS, 1024, args, work, **more)


def l2_probes(plan: Plan) -> None:
    """Add hits of the L2 over the size of data."""
    for mib in (8, 12, 16, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48, 52, 60, 80):
        add_l2(plan, mib, 66)
    for mib in (8, 16, 20, 24, 28, 32, 40, 44, 48, 60, 80):
        add_l2(plan, mib, 0)
    for mib in (16, 24, 32, 48):
        add_l2(plan, mib, 1)


def dram_probes(plan: Plan) -> None:
    """Add traffic between the L2 and the DRAM."""
    reads = [(4, 0, 0), (1024, 0, 0), (64, 0, 0), (64, 32, 32)]
    reads += [(stride, 32 * sector, 32 * sector) for stride in (128, 256) for sector in range(4)]
    reads += [(128, 0, 32), (128, 32, 64), (128, 0, 64)]
    for stride, first, second in reads:
        count = 128 * MIB // stride
        args = [at(DATA), *words(count, stride, first, second), at(SINK)]
        sectors = 128 * MIB // max(stride, 32) * (1 if first == second else 2)
        parameters: dict[str, object] = {"stride": stride, "first": first // 32, "second": second // 32}
        plan.add("dram.read", parameters, "l2.dram_read", 8 * SMS, 256, args, {"load_sectors": sectors})
    writes = [(mib, 4) for mib in (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 128)] + [(32, 32), (128, 32)]
    for mib, stride in writes:
        args = [at(DATA), *words(mib * MIB // stride, stride)]
        work: dict[str, float] = {"store_sectors": mib * MIB // 32}
        plan.add("dram.write", {"mib": mib, "stride": stride}, "l2.dram_write", 8 * SMS, 256, args, work)
    for mib, half in ((16, 0), (64, 0), (128, 0), (16, 1), (64, 1)):
        args = [at(DATA), *words(mib * MIB // (8 if half else 4), half), at(CONTROL)]
        work = {"store_sectors": 2 * mib * MIB // 32}
        parameters = {"mib": mib, "half": half}
        plan.add("dram.write_twice", parameters, "l2.dram_write_twice", SMS, 1024, args, work, clear=CLOCKS)
    for mib in (16, 128):
        work = {"load_sectors": mib * MIB // 32, "store_sectors": mib * MIB // 32}
        args = [at(DATA), *words(mib * MIB // 4)]
        plan.add("dram.modify", {"mib": mib}, "l2.dram_modify", 8 * SMS, 256, args, work)
    for written, read in ((16, 64), (16, 16)):
        work = {"load_sectors": read * MIB // 32, "store_sectors": written * MIB // 32}
        args = [at(DATA), *words(written * MIB // 4, read * MIB // 4), at(CONTROL), at(SINK)]
        parameters = {"written": written, "read": read}
        plan.add("dram.write_read", parameters, "l2.dram_write_read", SMS, 1024, args, work, clear=CLOCKS)


def carveout_probes(plan: Plan) -> None:
    """Add splits of L1 and shared memory; the sizes grow, since the function keeps the greatest that was allowed."""
    for shared in (0, 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 100, 128, 160, 200, 227):
        for block in (64, 256, 1024):
            args = [*words(shared * KIB // 4), at(SINK)]
            names: dict[str, object] = {"kib": shared, "threads": block}
            if block != 256 or shared in (0, 4, 8, 32, 64, 100):
                plan.add("carveout.many", names, "l1.carveout", 32 * SMS, block, args, shared=shared * KIB)
            if block == 256 and shared in (0, 8, 32, 64, 100):
                plan.add("carveout.one", names, "l1.carveout", 1, block, args, shared=shared * KIB)


def l1_rates(plan: Plan) -> None:
    """Add bandwidth of the L1 and of shared memory."""
    shapes = [(warps, width, width) for warps in (1, 2, 4, 8, 16, 32, 64) for width in (4, 8, 16)]
    shapes += [(32, 4, 4 * stride) for stride in (0, 2, 4, 8, 16, 32)]
    for warps, width, distance in shapes:
        loads = 1024 if distance > 16 else max(2048, min(16384, 65536 // warps))
        blocks, block = SMS * max(1, warps // 32), 32 * min(warps, 32)
        clocks = plan.clocks(blocks)
        iterations = loads // (4 if width == 16 else 8)
        args = [at(DATA), *words(distance, iterations), at(CLOCKS + clocks["at"]), at(SINK)]
        work: dict[str, float] = {"loads_per_warp": loads, "bytes_per_sm": warps * 32 * loads * width}
        names: dict[str, object] = {"warps": warps, "width": width, "lanes": distance}
        plan.add("rate.l1", names, f"rates.l1_rate_{width}", blocks, block, args, work, clocks=clocks)
    for degree in (1, 2, 4, 8, 16, 32):
        clocks = plan.clocks(SMS)
        loads = 8 * (2048 // degree)
        args = [*words(degree, loads // 8), at(CLOCKS + clocks["at"]), at(SINK)]
        work = {"loads_per_warp": loads, "bytes_per_sm": 32 * 128 * loads}
        names = {"warps": 32, "degree": degree}
        plan.add("rate.shared", names, "rates.shared_rate", SMS, 1024, args, work, clocks=clocks)
    for warps in (8, 16, 32, 64):
        blocks, block = SMS * max(1, warps // 32), 32 * min(warps, 32)
        clocks = plan.clocks(blocks)
        args = [*words(20, 0), at(CLOCKS + clocks["at"]), at(SINK)]
        work = {"loads_per_warp": 20 * 64, "stores_per_warp": 20 * 64}
        plan.add("rate.local", {"warps": warps}, "rates.local_round_trip", blocks, block, args, work, clocks=clocks)


def memory_rates(plan: Plan) -> None:
    """Add bandwidth of the L2 and of the DRAM."""
    for width in (4, 16):
        for blocks, block in ((SMS, 256), (SMS, 1024), (2 * SMS, 1024)):
            quads = 10 * MIB // (4 * width * blocks * block)
            work: dict[str, float] = {"bytes": 40 * quads * 4 * width * blocks * block}
            args = [at(DATA), *words(quads, 40), at(SINK)]
            names: dict[str, object] = {"width": width, "blocks": blocks, "threads": block}
            plan.add("rate.l2", names, f"rates.l2_rate_{width}", blocks, block, args, work)
    for name, size in (("read", 1024 * MIB), ("copy", 512 * MIB), ("write", 1024 * MIB)):
        for width in (4, 16):
            for blocks, block in ((SMS, 1024), (8 * SMS, 256), (32 * SMS, 256), (size // width // 256, 256)):
                args = [at(DATA), at(DATA + (size if name == "copy" else 0)), *words(size // width), at(SINK)]
                names = {"what": name, "width": width, "blocks": blocks, "threads": block}
                work = {"bytes": size * (2 if name == "copy" else 1)}
                plan.add("rate.dram", names, f"rates.dram_{name}_{width}", blocks, block, args, work)


def operation_rates(plan: Plan) -> None:
    """Add throughput of arithmetic and of barriers."""
    for operation, kind, first, second in (
        ("ffma", "f", 0.5, 1),
        ("fadd", "f", 0.5, 1),
        ("mufu", "f", 0.5, 1),
        ("imad", "I", 3, 7),
        ("iadd", "I", 3, 7),
        ("imad_wide", "Q", 3, 7),
        ("i2f", "i", 3, 7),
        ("f2i", "i", 3, 7),
        ("dadd", "d", 0.5, 1),
        ("dfma", "d", 0.5, 1),
    ):
        for warps in (4, 32):
            clocks = plan.clocks(SMS)
            args = [*words(128), value(kind, first), value(kind, second), at(CLOCKS + clocks["at"]), at(SINK)]
            work: dict[str, float] = {"ops_per_sm": 128 * 32 * 32 * warps}
            names: dict[str, object] = {"op": operation, "warps": warps}
            plan.add("rate.op", names, f"rates.rate_{operation}", SMS, 32 * warps, args, work, clocks=clocks)
    for warps in (1, 2, 4, 8, 16, 32):
        clocks = plan.clocks(1)
        args = [*words(64), at(CLOCKS + clocks["at"])]
        work = {"barriers": 256}
        plan.add("latency.barrier", {"warps": warps}, "rates.barrier_latency", 1, 32 * warps, args, work, clocks=clocks)


def add_ring(plan: Plan, probe: str, names: dict[str, object], count: int, stride: int, step: int) -> None:
    """Add a launch, not timed, that writes a ring of pointers for the next one to follow."""
    args = [at(DATA), *words(count, stride, step), at(CONTROL)]
    plan.add(f"ring.{probe}", names, "rates.chase_init", 8 * SMS, 256, args, times=0)


def latencies(plan: Plan) -> None:
    """Add latencies of loads, each with one thread per block."""
    for level, kib in (
        ("l1", 16),
        ("l1", 128),
        ("l2", 1024),
        ("l2", 8 * KIB),
        ("l2", 24 * KIB),
        ("dram", 64 * KIB),
        ("dram", 256 * KIB),
        ("dram", 1024 * KIB),
    ):
        count, clocks = kib * KIB // 128, plan.clocks(1)
        names: dict[str, object] = {"kib": kib}
        add_ring(plan, level, names, count, 128, int(count * 0.618) | 1)  # neighbours in the ring are far apart
        warm, steps = (count, 1024) if level == "l1" else (0, 2048)
        args = [*words(warm, steps), at(CONTROL), at(CLOCKS + clocks["at"])]
        kernel = "rates.chase_ca" if level == "l1" else "rates.chase_cg"
        plan.add(f"latency.{level}", names, kernel, 1, 1, args, {"loads": steps}, clocks=clocks)
    add_ring(plan, "distance", {"sectors": 64}, 64, 4096, 0)
    for blocks, sectors in ((1, 64), (SMS, 16)):
        clocks = plan.clocks(blocks * (sectors + 1))
        args = [at(DATA), *words(sectors, 4096, 64), at(CLOCKS + clocks["at"])]
        names = {"blocks": blocks, "sectors": sectors}
        work: dict[str, float] = {"loads": 64, "numbers_per_block": sectors + 1}
        plan.add("latency.distance", names, "rates.l2_distance", blocks, 1, args, work, clocks=clocks)
    clocks = plan.clocks(1)
    args = [*words(1024), at(CLOCKS + clocks["at"])]
    plan.add("latency.shared", {}, "rates.shared_latency", 1, 1, args, {"loads": 1024}, clocks=clocks)


def main(folder: Path) -> None:
    """Compile the modules and write the plans."""
    folder.mkdir(parents=True, exist_ok=True)
    for module in MODULES:
        command = ["nvcc", "-arch=sm_90", "-cubin", "-lineinfo", "-o", str(folder / f"{module}.cubin")]
        subprocess.run([*command, str(SOURCES / f"{module}.cu")], check=True)
    counted = Plan(160 * MIB)
    for add in (store_probes, l1_probes, l2_probes, dram_probes, carveout_probes):
        add(counted)
    counted.write(folder / "probes.json")
    timed = Plan(1024 * MIB, times=5)
    for add in (l1_rates, memory_rates, operation_rates, latencies):
        add(timed)
    for kib in (128, 224, 288):
        add_l1(timed, "l1.shared", kib)
        add_l1(timed, "l1.own", kib)
    for mib in (8, 24, 40, 80):
        add_l2(timed, mib, 66)
        add_l2(timed, mib, 0)
    timed.write(folder / "probes_timed.json")
    print(f"{len(counted.launches)} launches to count, {len(timed.launches)} to time")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
