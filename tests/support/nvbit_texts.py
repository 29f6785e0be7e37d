"""Write lines of NVBit traces."""

CONTEXT = "CTX 0x000055d0c0de0000"


def header(number=0, name="scale(float*, int)", grid=(4, 2, 1), block=(64, 1, 1), nregs=16, shmem=0, pc="pc "):
    shape = " - ".join(f"{what} size {x},{y},{z}" for what, (x, y, z) in (("grid", grid), ("block", block)))
    return (
        f"MEMTRACE: {CONTEXT} - LAUNCH - Kernel {pc}0x00007f1234567800 - Kernel name {name} - grid launch id {number} "
        f"- {shape} - nregs {nregs} - shmem {shmem} - cuda stream id 0\n"
    )


def record(addresses, cta=(0, 0, 0), warp=0, opcode="LDG.E.SYS", launch=0):
    text = " ".join(f"0x{address:016x}" for address in addresses)
    x, y, z = cta
    return f"MEMTRACE: {CONTEXT} - grid_launch_id {launch} - CTA {x},{y},{z} - warp {warp} - {opcode} - {text} \n"


def lanes(first=4096, step=4, count=32):
    """Return one address per lane; 0 stands for an inactive lane."""
    return [first + step * lane if lane < count else 0 for lane in range(32)]
