"""Test clusters: their blocks run together, see the shared memory of each other, and meet at the cluster's barrier."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.errors import LaunchError, TraceError
from rdmodel.trace import Op
from tests.support.ptx_kernels import module_of, run_kernel
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.isa.special_registers import cluster_blocks

THREADS = 32
REGISTERS = """
  .reg .b64 %rd<12>; .reg .b32 %r<24>; .reg .pred %p<6>; .reg .b32 %rank, %size, %t, %at; .reg .b64 %out, %x;
  .shared .align 8 .b32 cells[64]; .shared .align 8 .b64 ready;
  ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank; mov.u32 %size, %cluster_nctarank;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
  mad.lo.u32 %r5, %r4, 32, %t; mul.wide.u32 %rd1, %r5, 4; add.s64 %out, %x, %rd1;
  shl.b32 %at, %t, 2; mov.u32 %r6, cells; add.u32 %at, %at, %r6;
"""
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
NEXT = "add.u32 %r7, %rank, 1; rem.u32 %r7, %r7, %size;"
"""%r7 is the rank of the next block."""


def kernel(body: str, cluster: str = "4, 1, 1") -> str:
    """A kernel k(x): %at is the address of cells[thread], and %out that of x[thread of the grid]."""
    head = ".version 8.0\n.target sm_90\n.address_size 64\n"
    return f"{head}.visible .entry k(.param .u64 x) .reqnctapercluster {cluster}\n{{{REGISTERS}{body}\n ret;\n}}"


def run(body: str, blocks: int = 8, cluster: str = "4, 1, 1", grid=None) -> np.ndarray:
    x = np.zeros(blocks * THREADS, np.uint32)
    run_kernel(kernel(body, cluster), "k", grid or blocks, THREADS, [x])
    return x.reshape(blocks, THREADS)


def expected_of_next(blocks: int, size: int) -> np.ndarray:
    rank, first = np.arange(blocks) % size, np.arange(blocks) // size * size
    return (100 * (first + (rank + 1) % size))[:, None] + np.arange(THREADS)


FILL = "mad.lo.u32 %r8, %r4, 100, %t; st.shared.u32 [%at], %r8;"


def test_a_block_reads_the_shared_memory_of_the_next_one():
    body = f"{FILL} {MEET} {NEXT} mapa.shared::cluster.u32 %r9, %at, %r7; ld.shared::cluster.u32 %r10, [%r9]; {MEET}"
    assert (run(f"{body} st.global.u32 [%out], %r10;") == expected_of_next(8, 4)).all()


def test_generic_addresses_reach_other_blocks_too():
    body = f"""{FILL} {MEET} {NEXT} cvt.u64.u32 %rd2, %at; cvta.shared.u64 %rd3, %rd2; mapa.u64 %rd4, %rd3, %r7;
    ld.u32 %r10, [%rd4]; getctarank.u64 %r11, %rd4; getctarank.shared::cluster.u32 %r12, %at;
    setp.ne.u32 %p1, %r11, %r7; @%p1 trap; setp.ne.u32 %p1, %r12, %rank; @%p1 trap; {MEET}"""
    assert (run(f"{body} st.global.u32 [%out], %r10;") == expected_of_next(8, 4)).all()


def test_blocks_update_one_histogram_together():
    # Every thread of a cluster adds its rank + 1 to the cell of its number in the block of rank 0.
    body = f"""mov.u32 %r8, 0; st.shared.u32 [%at], %r8; {MEET}
    mov.u32 %r9, 0; mapa.shared::cluster.u32 %r10, %at, %r9; add.u32 %r11, %rank, 1;
    red.shared::cluster.add.u32 [%r10], %r11; {MEET}
    ld.shared.u32 %r12, [%at]; st.global.u32 [%out], %r12;"""
    assert run(body)[:, 0].tolist() == [10, 0, 0, 0, 10, 0, 0, 0]


def test_a_block_waits_at_its_mbarrier_for_the_arrivals_of_the_others():
    body = f"""setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [ready], 3; {MEET}
    setp.eq.u32 %p2, %rank, 0; @%p2 bra WAIT;
    mov.u32 %r8, 0; mapa.shared::cluster.u32 %r9, %at, %r8; mad.lo.u32 %r10, %rank, 7, %t;
    @%p1 st.shared::cluster.u32 [%r9], %r10;
    mov.u32 %r11, ready; mapa.shared::cluster.u32 %r12, %r11, %r8;
    @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12]; bra DONE;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [ready], 0; @!%p3 bra WAIT;
    @%p1 ld.shared.u32 %r13, [%at]; @%p1 st.global.u32 [%out], %r13;
    DONE: {MEET}"""
    assert run(body)[:, 0].tolist() == [21, 0, 0, 0, 21, 0, 0, 0]


def test_threads_arrive_and_work_before_they_wait():
    # The first block arrives, and lets the others go on, before it reads what they have written for it.
    body = f"""{FILL} barrier.cluster.arrive;
    setp.eq.u32 %p1, %rank, 0; mov.u32 %r14, 5; @%p1 mov.u32 %r14, 6;
    barrier.cluster.wait; {NEXT} mapa.shared::cluster.u32 %r9, %at, %r7; ld.shared::cluster.u32 %r10, [%r9];
    barrier.cluster.arrive; add.u32 %r10, %r10, %r14; st.global.u32 [%out], %r10; barrier.cluster.wait;"""
    bonus = np.where(np.arange(8) % 4 == 0, 6, 5)[:, None]
    assert (run(body) == expected_of_next(8, 4) + bonus).all()


def test_a_block_polls_a_flag_that_another_one_writes():
    body = f"""mov.u32 %r8, 0; st.shared.u32 [%at], %r8; {MEET}
    {NEXT} mapa.shared::cluster.u32 %r9, %at, %r7; add.u32 %r10, %rank, 1; st.shared::cluster.u32 [%r9], %r10;
    POLL: ld.volatile.shared.u32 %r11, [%at]; setp.eq.u32 %p1, %r11, 0; @%p1 bra POLL;
    st.global.u32 [%out], %r11; {MEET}"""
    assert run(body)[:, 5].tolist() == [4, 1, 2, 3] * 2


def test_clusters_of_two_axes_have_ranks_along_x_first():
    body = f"{FILL} {MEET} {NEXT} mapa.shared::cluster.u32 %r9, %at, %r7; ld.shared::cluster.u32 %r10, [%r9]; {MEET}"
    found = run(f"{body} st.global.u32 [%out], %r10;", 16, "2, 2, 1", (4, 4))
    launch = LoadedModule(module_of(kernel("", "2, 2, 1"))).launch("k", (4, 4), THREADS, [bytes(8)]).launch
    for block in range(16):
        members = cluster_blocks(launch, block, (2, 2, 1))
        following = members[(members.index(block) + 1) % 4]
        assert found[block, 0] == 100 * following
    assert cluster_blocks(launch, 13, (2, 2, 1)) == [8, 9, 12, 13]


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 2, 0, 0], [1, 5, 2]])
def test_blocks_are_the_same_in_every_order_of_requests(order):
    body = f"{FILL} {MEET} {NEXT} mapa.shared::cluster.u32 %r9, %at, %r7; ld.shared::cluster.u32 %r10, [%r9]; {MEET}"
    machine = LoadedModule(module_of(kernel(f"{body} st.global.u32 [%out], %r10;")))
    x = machine.allocate(8 * 4 * THREADS, "x")
    launched = machine.launch("k", 8, THREADS, [x], values=False)
    assert not launched.data_dependent
    works = []
    for block in order:
        columns = launched.run(block)
        assert columns.op.tolist() == [Op.BARRIER, Op.BARRIER, Op.STORE]
        assert columns.addresses.tolist() == [x.base + 4 * (32 * block + t) for t in range(THREADS)]
        works.append(launched.last_work().instructions)
    assert all(work == works[0] and work["int"] > 0 for work in works)


def test_blocks_that_wait_for_each_other_are_a_deadlock():
    body = "setp.eq.u32 %p1, %rank, 0; @%p1 bra DONE; barrier.cluster.arrive; DONE: barrier.cluster.arrive;"
    with pytest.raises(TraceError, match=r"deadlock in block \d: 32 threads at the barrier of the cluster in PTX line"):
        run("setp.eq.u32 %p1, %rank, 1; @%p1 bra STUCK; barrier.cluster.arrive; barrier.cluster.wait; bra DONE;"
            "STUCK: mbarrier.init.shared.b64 [ready], 9; W: mbarrier.try_wait.parity.shared.b64 %p3, [ready], 0;"
            "@!%p3 bra W; DONE:")  # fmt: skip
    assert run(f"{body} barrier.cluster.wait; st.global.u32 [%out], 3;").min() == 3


@pytest.mark.parametrize(
    ("rank", "offset"), [(4, 0), (200, 0), (1, 1 << 12), (0, 1 << 20)], ids=["beyond", "far", "end", "own"]
)
def test_an_address_outside_the_memory_of_the_cluster_is_refused(rank, offset):
    body = f"mov.u32 %r8, {rank}; mapa.shared::cluster.u32 %r9, %at, %r8; ld.shared::cluster.u32 %r10, [%r9+{offset}];"
    with pytest.raises(TraceError, match=r"ld\.shared::cluster\.u32 of 4 bytes at offset \d+ of shared memory"):
        run(f"{body} st.global.u32 [%out], %r10;")


def test_poison_passes_to_other_blocks():
    spoil = """mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r1, %r1, %r1, %r1},
    {%r1, %r1}, {%f1, %f2, %f3, %f4};"""
    body = f""".reg .f32 %f<5>; {spoil} st.shared.f32 [%at], %f1; {MEET} {NEXT}
    mapa.shared::cluster.u32 %r9, %at, %r7; ld.shared::cluster.u32 %r10, [%r9];
    mul.wide.u32 %rd5, %r10, 4; add.s64 %rd6, %x, %rd5; ld.global.u32 %r11, [%rd6];"""
    with pytest.raises(TraceError, match=r"the address of ld\.global\.u32 depends on a value that is not computed"):
        run(f"{body} st.global.u32 [%out], %r11;")


def test_a_launch_may_choose_the_cluster_of_a_kernel_that_requires_none():
    free = kernel(FILL + MEET + NEXT + " st.global.u32 [%out], %size;").replace(".reqnctapercluster 4, 1, 1", "")
    for cluster, size in ((None, 1), (2, 2), ((2, 2), 4), ((1, 4, 1), 4)):
        x = np.zeros(16 * THREADS, np.uint32)
        run_kernel(free, "k", (4, 4), THREADS, [x], cluster=cluster)
        assert set(x.tolist()) == {size}


@pytest.mark.parametrize(
    ("cluster", "grid", "message"),
    [
        (17, 17, r"cluster=17x1x1 of k: must have at most 16 blocks"),
        ((2, 4, 4), (2, 4, 4), r"cluster=2x4x4 of k: must have at most 16 blocks"),
        (3, 8, r"grid=8x1x1: k has clusters of 3x1x1 blocks: must be a multiple of it along each axis"),
        (0, 8, r"cluster=0: must be one to three numbers of at least 1"),
    ],
)
def test_a_cluster_that_a_launch_cannot_have_is_refused(cluster, grid, message):
    machine = LoadedModule(module_of(kernel("").replace(".reqnctapercluster 4, 1, 1", "")))
    with pytest.raises(LaunchError, match=message):
        machine.launch("k", grid, THREADS, [bytes(8)], cluster=cluster)


def test_a_cluster_other_than_the_required_one_and_too_much_memory_are_refused():
    machine = LoadedModule(module_of(kernel("")))
    assert machine.launch("k", 4, THREADS, [bytes(8)], cluster=4).launch.blocks == 4
    with pytest.raises(LaunchError, match=r"cluster=2x1x1: k has \.reqnctapercluster 4x1x1, which requires exactly"):
        machine.launch("k", 4, THREADS, [bytes(8)], cluster=2)
    with pytest.raises(LaunchError, match=r"shared=\d+: a block of a cluster must have at most 16777216 bytes"):
        machine.launch("k", 4, THREADS, [bytes(8)], shared=1 << 24)
