# Transactions of one instruction: the lines that its groups of lanes request, and masks of the sectors of each line.
# docs/model.md section 3 has the rules.
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef enum:
    LANES = 32
    WHOLE_WARP = 128         # request_bytes of GPUs whose groups are as large as possible


cdef inline int64_t group_lanes(int64_t size, int64_t request_bytes) noexcept nogil:
    # Return the number of lanes that are coalesced together: as many as `request_bytes` hold, sizes rounded up to a
    # power of two. 128 bytes are the rule of the CUDA guide, G.4.2.
    cdef int64_t unit = 1, lanes
    while unit < size:
        unit += unit
    lanes = request_bytes // unit
    return LANES if lanes > LANES else lanes if lanes > 0 else 1


cdef inline int64_t place_line(int64_t line, int64_t* group, int64_t* found, int64_t* top) noexcept nogil:
    # Return the index of `line` among the group's `found` lines, and append it if it is new. Ascending lines need no
    # search.
    cdef int64_t i
    if found[0] > 0 and line <= top[0]:
        i = found[0] - 1
        while i >= 0:
            if group[i] == line:
                return i
            i -= 1
    else:
        top[0] = line
    group[found[0]] = line
    found[0] += 1
    return found[0] - 1


cdef inline int64_t coalesce_warp(
    const int64_t* address, uint32_t mask, int64_t size, int64_t width, int64_t line_bits, int64_t* out
) noexcept nogil:
    # Write the lines of one instruction to `out`, in groups of `width` lanes; return their number. Addresses of
    # inactive lanes are not read.
    cdef int64_t lane, line, last, found = 0, total = 0, top = 0
    for lane in range(LANES):
        if lane % width == 0:
            total += found
            found = 0
        if not (mask >> lane) & 1:
            continue
        line = address[lane] >> line_bits
        last = (address[lane] + (size - 1)) >> line_bits
        place_line(line, out + total, &found, &top)
        while line < last:
            line += 1
            place_line(line, out + total, &found, &top)
    return total + found


cdef inline int64_t coalesce_lanes(
    const int64_t* address, uint32_t mask, int64_t size, int64_t width, int64_t line_bits, int64_t* out, uint32_t* masks
) noexcept nogil:
    # As `coalesce_warp`; also write to `masks` the lanes that requested each line.
    cdef int64_t lane, line, i, before, found = 0, total = 0, top = 0
    for lane in range(LANES):
        if lane % width == 0:
            total += found
            found = 0
        if not (mask >> lane) & 1:
            continue
        for line in range(address[lane] >> line_bits, ((address[lane] + (size - 1)) >> line_bits) + 1):
            before = found
            i = place_line(line, out + total, &found, &top)
            if i == before:
                masks[total + i] = 0
            masks[total + i] |= <uint32_t> 1 << lane
    return total + found


cdef inline uint32_t sectors_from(int64_t low, int64_t high) noexcept nogil:
    # Return the mask of the sectors `low` to `high` of a line; high < 32.
    return <uint32_t> (((<uint64_t> 2 << high) - (<uint64_t> 1 << low)) & <uint64_t> 0xffffffff)


cdef inline uint32_t sectors_of(
    int64_t first, int64_t last, int64_t line, int64_t line_bits, int64_t sector_bits
) noexcept nogil:
    # Return the mask of a line's sectors that the bytes `first` to `last` touch; at least one of them is in the line.
    cdef int64_t begin = line << line_bits, end = begin + ((<int64_t> 1 << line_bits) - 1)
    return sectors_from(
        ((first if first > begin else begin) - begin) >> sector_bits,
        ((last if last < end else end) - begin) >> sector_bits,
    )


cdef inline uint32_t sectors_written(
    const int64_t* address, uint32_t lanes, int64_t size, int64_t line, uint32_t asked, int64_t line_bits,
    int64_t sector_bits,
) noexcept nogil:
    # Return those of a line's sectors in `asked` of which the `lanes` write every byte. Unsigned, as the end of the
    # last line is beyond the range of addresses.
    cdef uint64_t at, end, begin
    cdef uint32_t full = 0
    cdef int64_t sector, lane = 0, tried
    for sector in range(32):
        if not (asked >> sector) & 1:
            continue
        at = (<uint64_t> line << line_bits) + (<uint64_t> sector << sector_bits)
        end = at + (<uint64_t> 1 << sector_bits)
        tried = 0
        # The lane that writes the next byte is usually the next lane.
        while at < end and tried < LANES:
            begin = <uint64_t> address[lane] if (lanes >> lane) & 1 else end
            if begin <= at and at < begin + <uint64_t> size:
                at = begin + <uint64_t> size
                tried = 0
            else:
                tried += 1
                lane = (lane + 1) & (LANES - 1)
        if at >= end:
            full |= <uint32_t> 1 << sector
    return full


cdef inline int64_t coalesce_sectors(
    const int64_t* address, uint32_t mask, int64_t size, int64_t width, int64_t line_bits, int64_t sector_bits,
    int64_t* out, uint32_t* masks, uint32_t* full,
) noexcept nogil:
    # As `coalesce_warp`; also write to `masks` the sectors of each line that its lanes requested, and to `full` (NULL:
    # not) those of which they access every byte.
    cdef int64_t first = 0, lane, line, i, before, last, found, total = 0, top = 0
    cdef uint32_t lanes
    while first < LANES:
        lanes = mask & <uint32_t> (((<uint64_t> 1 << width) - 1) << first)
        found = 0
        for lane in range(first, first + width):
            if not (lanes >> lane) & 1:
                continue
            last = address[lane] + (size - 1)
            for line in range(address[lane] >> line_bits, (last >> line_bits) + 1):
                before = found
                i = place_line(line, out + total, &found, &top)
                if i == before:
                    masks[total + i] = 0
                masks[total + i] |= sectors_of(address[lane], last, line, line_bits, sector_bits)
        if full != NULL:
            for i in range(total, total + found):
                full[i] = sectors_written(address, lanes, size, out[i], masks[i], line_bits, sector_bits)
        total += found
        first += width
    return total


# ---- runs: instructions whose lanes ascend gently, wherever a loop moves them

cdef enum:
    MAX_RUNS = 4             # groups of an instruction that may be runs: one of 32 lanes, or up to four smaller ones


cdef struct Runs:
    int64_t[4] first, last   # byte addresses, one pair per group that has active lanes
    int64_t count            # 0: some group is no run


cdef inline void find_runs(
    const int64_t[:] address, uint32_t mask, int64_t size, int64_t width, int64_t step, Runs* runs
) noexcept nogil:
    # Set `runs` if the lanes of every group ascend by at most `step` bytes each: a line, or a sector. Then each group
    # requests every line or sector from its first byte to its last, in that order, wherever a loop moves it.
    cdef int64_t lane, before = -1, count = 0
    runs.count = 0
    if width * MAX_RUNS < LANES:
        return
    for lane in range(LANES):
        if lane % width == 0:
            before = -1
        if not (mask >> lane) & 1:
            continue
        if before < 0:
            runs.first[count] = address[lane]
            count += 1
        elif address[lane] < before or address[lane] - before > step:
            return
        before = address[lane]
        runs.last[count - 1] = before + (size - 1)
    runs.count = count


cdef inline int64_t write_runs(const Runs* runs, int64_t shift, int64_t line_bits, int64_t* out) noexcept nogil:
    # Write the lines of the runs, moved by `shift` bytes; return their number.
    cdef int64_t i, line, count = 0
    for i in range(runs.count):
        for line in range(runs.first[i] + shift >> line_bits, (runs.last[i] + shift >> line_bits) + 1):
            out[count] = line
            count += 1
    return count


cdef inline uint32_t sectors_inside(
    int64_t first, int64_t last, int64_t line, int64_t line_bits, int64_t sector_bits
) noexcept nogil:
    # Return the mask of a line's sectors that lie within the bytes `first` to `last`; at least one of them is in the
    # line.
    cdef int64_t begin = line << line_bits, end = begin + ((<int64_t> 1 << line_bits) - 1)
    cdef int64_t low = ((first if first > begin else begin) - begin + (<int64_t> 1 << sector_bits) - 1) >> sector_bits
    cdef int64_t high = (((last if last < end else end) - begin + 1) >> sector_bits) - 1
    return sectors_from(low, high) if low <= high else 0


cdef inline int64_t write_sector_runs(
    const Runs* runs, int64_t shift, int64_t line_bits, int64_t sector_bits, int64_t* out, uint32_t* masks,
    uint32_t* full,
) noexcept nogil:
    # As `write_runs`, with masks as `coalesce_sectors`; for `full`, the runs must have no holes.
    cdef int64_t i, line, first, last, count = 0
    for i in range(runs.count):
        first = runs.first[i] + shift
        last = runs.last[i] + shift
        for line in range(first >> line_bits, (last >> line_bits) + 1):
            out[count] = line
            masks[count] = sectors_of(first, last, line, line_bits, sector_bits)
            if full != NULL:
                full[count] = sectors_inside(first, last, line, line_bits, sector_bits)
            count += 1
    return count
