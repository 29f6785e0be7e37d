"""Read Accel-Sim traces with regular expressions, sets and dicts: the oracle of the compiled reader."""

import re

WINDOW = 1 << 24
LOADS = {"LDG", "LDU", "LDGMC", "LD", "LDL", "LDC", "LDCU", "ULDC", "LDGSTS"}
LOADS |= {"TEX", "TEXS", "TLD", "TLDS", "TLD4", "TLD4S", "TXD", "SULD"}
STORES = {"STG", "ST", "STL", "SUST"}
ATOMICS = {"ATOM", "ATOMG", "RED", "REDG", "SUATOM", "SURED"}
GENERIC = {"LD", "ST", "ATOM", "RED"}
LOCAL = {"LDL", "STL"}
CONSTANT = {"LDC", "LDCU", "ULDC"}
TEXTURE = {"TEX", "TEXS", "TLD", "TLDS", "TLD4", "TLD4S", "TXD", "SULD", "SUST", "SUATOM", "SURED"}
DATA_LAST = STORES | ATOMICS | {"STS", "STSM", "STSCUL", "STAS", "ATOMS", "REDAS"}

HEADER = re.compile(r"^-(.*?) = (.*)$", re.M)
BLOCK = re.compile(r"#BEGIN_TB\s+thread block = (\d+),(\d+),(\d+)\s(.*?)#END_TB", re.S)
WARP = re.compile(r"warp = (\d+)\s+insts = (\d+)[^\n]*\n(.*?)(?=\nwarp = |\Z)", re.S)
LINE = re.compile(
    r"(?:(?P<place>\d+ \d+ \d+ \d+) )?(?:(?P<source_line>\d+) )?(?P<pc>[0-9a-f]+) (?P<mask>[0-9a-f]{8}) "
    r"(?P<targets>\d+(?: R\d+)*) (?P<opcode>[A-Z][\w.]*) (?P<sources>\d+(?: R\d+)*) (?P<width>\d+)(?P<rest>(?: \S+)*) ?"
)


def header_of(text):
    return dict(HEADER.findall(text.partition("#BEGIN_TB")[0]))


def read_plainly(text):
    """Return {(block, warp): rows}; a row is (pc, op, space, size, gap, needs, mask, addresses)."""
    header = header_of(text)
    grid = [int(n) for n in header["grid dim"].strip("()").split(",")]
    bases = [int(header.get(key, "0"), 16) for key in ("shmem base_addr", "local mem base_addr")]
    result = {}
    for x, y, z, body in BLOCK.findall(text):
        block = int(x) + grid[0] * (int(y) + grid[1] * int(z))
        for warp, count, lines in WARP.findall(body):
            lines = [line.strip() for line in lines.splitlines() if line.strip()]
            assert len(lines) == int(count)
            result[block, int(warp)] = read_warp(lines, header, bases)
    return result


def read_warp(lines, header, bases):
    version = int(header.get("accelsim tracer version", "0").split(".")[0])
    rows, gap, ordinal = [], 0, 0
    owner, on_the_way, wanted, copied, unknown = {}, set(), set(), set(), False
    for line in lines:
        fields = LINE.fullmatch(line)
        assert fields, line
        assert (fields["place"] is not None) == (version < 3)
        assert (fields["source_line"] is not None) == (header.get("enable lineinfo") == "1")
        base = fields["opcode"].split(".")[0]
        mask, width = int(fields["mask"], 16), width_of(fields)
        addresses = addresses_of(mask, fields["rest"].split()) if width else []
        targets, sources = (registers(fields[name]) for name in ("targets", "sources"))
        if base in ("ATOM", "ATOMG", "SUATOM") and not targets and len(sources) >= 3:
            targets, sources = sources[:1], sources[1:]
        space = space_of(base, addresses, bases)
        several = 1 if width <= 4 else 2 if width <= 8 else 4
        touched = set(sources)
        if base in DATA_LAST and sources:
            touched |= {sources[-1] + i for i in range(several)}
        written = {r + i for r in targets for i in range(several if len(targets) == 1 and width else 1)} - {255}
        written = {r for r in written if r < 255}
        touched |= written
        wanted |= {owner[r] for r in touched if r in owner and r != 255} & on_the_way
        if base == "DEPBAR":
            wanted |= copied & on_the_way
        access = base in LOADS | STORES | ATOMICS and width > 0 and mask != 0 and space != "shared"
        returns = access and base in (LOADS | ATOMICS) - {"RED", "REDG", "SURED", "LDGSTS"}
        if mask:
            for r in written:
                owner.pop(r, None)
                if returns:
                    owner[r] = ordinal
        needs = sum(1 << ordinal - 1 - o for o in wanted if ordinal - 1 - o < 64)
        if unknown and (access or (base == "BAR" and mask)):
            needs, wanted = (1 << 64) - 1, set(on_the_way)
        if base == "BAR" and mask:
            rows.append((int(fields["pc"], 16), 3, 0, 0, gap, needs, mask, []))
            on_the_way -= wanted
            wanted, gap, unknown = set(), 0, False
        elif access:
            op = 0 if base in LOADS else 1 if base in STORES else 2
            rows.append((int(fields["pc"], 16), op, space, width, gap, needs, mask, addresses))
            on_the_way -= wanted
            wanted, gap = set(), 0
            if (returns and written) or base == "LDGSTS":
                on_the_way.add(ordinal)
            if base == "LDGSTS":
                copied.add(ordinal)
            unknown = base in LOADS - {"LDGSTS"} and fields["targets"] == "0"
            ordinal += 1
        else:
            gap += 1
    return rows


def registers(text):
    count, *names = text.split()
    assert len(names) == int(count)
    return [int(name[1:]) for name in names]


def width_of(fields):
    if fields["width"] == "0":
        return 0
    said = re.search(r"\.[USFB]?(8|16|32|64|128)(?=\.|$)", fields["opcode"])
    return int(said[1]) // 8 if said else int(fields["width"])


def addresses_of(mask, rest):
    lanes = mask.bit_count()
    mode, *values = rest
    if mode == "0":
        return [int(value, 16) for value in values[:lanes]]
    base = int(values[0], 16)
    if mode == "1":
        return [base + i * int(values[1]) for i in range(lanes)]
    result = [base]
    for value in values[1:lanes]:
        result.append(result[-1] + int(value))
    return result[:lanes]


def space_of(base, addresses, bases):
    if base in GENERIC:
        for window, name in zip(bases, ("shared", 1), strict=True):
            if window and any(window <= a < window + WINDOW for a in addresses):
                return name
    return 1 if base in LOCAL else 2 if base in CONSTANT else 3 if base in TEXTURE else 0
