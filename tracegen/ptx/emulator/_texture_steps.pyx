# See _texture_steps.pxd for the subject.
"""Execute accesses to textures and surfaces: `TextureSteps`, on top of `MemorySteps`."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from tracegen.ptx.emulator._lanes cimport derive_warps
from tracegen.ptx.emulator._memory_steps cimport MemorySteps
from tracegen.ptx.emulator._texture cimport Footprint, Texture, find_surface, find_texels, sample
from tracegen.ptx.emulator._threads cimport NO_MEMORY, OUTSIDE, TRAPPED, UNFINISHED
from tracegen.ptx.isa._code cimport (
    EXECUTE, GLOBAL, LOAD, POISONED, STORE, SULD, SURFACE_TRAP, SUST, TRACK, Code, Lanes,
)


cdef class TextureSteps(MemorySteps):
    """Steps that access memory by the coordinates of a texture or surface."""

    def bind_textures(self, const int64_t[:, ::1] table):
        """Set the textures: at least one row of `tracegen.ptx.emulator.textures.TEXTURE_FIELDS`."""
        assert table.shape[1] * 8 == sizeof(Texture)
        self.textures_owner = table
        self.textures, self.texture_count, self.last_texture = <const Texture*>&table[0, 0], table.shape[0], 0

    cdef int64_t read_texture(self, const Code* code, const Lanes* lanes) noexcept nogil:
        """Record and compute a sample: a load of the texels of each lane, each 32 bytes once per lane."""
        cdef const Texture* t = NULL
        cdef int64_t i, k, lane, most = 0, rows = 0, status
        for k in range(4):
            self.wait(lanes, code.src[k])
        for i in range(lanes.n):
            lane = lanes.lane[i]
            t = self.texture_of(code, lane)
            if t == NULL:
                return TRAPPED
            find_texels(
                t, code, self.value_of(code.src[1], lane), self.value_of(code.src[2], lane),
                self.value_of(code.src[3], lane), &self.footprints[i],
            )
            most = max(most, self.footprints[i].n)
        for k in range(most):
            status = self.read_texels(code, lanes, k, t.components * t.bytes, &rows)
            if status != UNFINISHED:
                return status
        if rows == 0 and code.flags & TRACK and self.records:
            self.log.clear(code, lanes)
        if code.flags & EXECUTE:
            self.sample_lanes(code, lanes)
        return UNFINISHED

    cdef int64_t read_texels(
        self, const Code* code, const Lanes* lanes, int64_t k, int64_t size, int64_t* rows
    ) noexcept nogil:
        """Locate the k-th texel of each lane, and record those in 32 bytes that the lane has not read yet."""
        cdef Footprint* f
        cdef int64_t i, j, n = 0
        cdef bint repeated
        for i in range(lanes.n):
            f = &self.footprints[i]
            if k < f.n and f.inside[k]:
                if not self.locate_one(lanes.lane[i], GLOBAL, f.place[k], size):
                    return OUTSIDE
                self.texels[i][k] = self.places.hosted[0]
        for i in range(lanes.n):
            f = &self.footprints[i]
            repeated = k >= f.n or not f.inside[k]
            for j in range(k):
                repeated = repeated or (f.inside[j] and f.place[j] // 32 == f.place[k] // 32)
            if not repeated:
                self.piece_lanes[n] = lanes.lane[i]
                self.piece_places[n] = f.place[k]
                n += 1
        self.piece.n = n
        derive_warps(&self.piece)
        if n == 0 or not self.records:
            return UNFINISHED
        return UNFINISHED if self.record_texels(code, size, rows) else NO_MEMORY

    cdef bint record_texels(self, const Code* code, int64_t size, int64_t* rows) noexcept nogil:
        """Add a load of the lanes in `piece`; results depend on all loads of their instruction."""
        cdef Code plain = code[0]
        cdef int64_t i, w
        plain.op = LOAD
        if rows[0]:
            for i in range(4):
                plain.dst[i] = -1
        if not self.record(&plain, &self.piece, GLOBAL, self.piece_places, size):
            return False
        if rows[0]:
            for w in range(self.piece.warps):
                for i in range(4):
                    self.log.set_dependence(code.dst[i], self.piece.warp[w], 0, 1)
        rows[0] += 1
        return True

    cdef void sample_lanes(self, const Code* code, const Lanes* lanes) noexcept nogil:
        cdef uint64_t[4] values
        cdef int64_t i, c, lane
        for i in range(lanes.n):
            lane = lanes.lane[i]
            sample(self.texture_of(code, lane), code, &self.footprints[i], self.texels[i], values)
            for c in range(4):
                if code.dst[c] >= 0:
                    self.row(code.dst[c])[lane] = values[c]
                    if code.flags & POISONED:
                        self.poison.rows[code.dst[c], lane] = 0

    cdef int64_t access_surface(self, const Code* code, const Lanes* lanes) noexcept nogil:
        """Execute a load or store of a surface as one of global memory; lanes outside of it read zeros."""
        cdef const Texture* t
        cdef Code plain = code[0]
        cdef Footprint f
        cdef int64_t i, k, lane, n = 0
        for k in range(4):
            self.wait(lanes, code.src[k])
        for i in range(lanes.n):
            lane = lanes.lane[i]
            t = self.texture_of(code, lane)
            if t == NULL:
                return TRAPPED
            find_surface(
                t, code, self.value_of(code.src[1], lane), self.value_of(code.src[2], lane),
                self.value_of(code.src[3], lane), &f,
            )
            if f.inside[0]:
                self.piece_lanes[n] = <int32_t>lane
                self.piece_places[n] = f.place[0]
                n += 1
            elif code.mode == SURFACE_TRAP:
                self.thread, self.address = lane, t.base + <uint64_t>(t.depth * t.slice - 1)
                return OUTSIDE
            elif code.op == SULD:
                for k in range(4):
                    if code.dst[k] >= 0:
                        self.row(code.dst[k])[lane] = 0
        self.piece.n = n
        derive_warps(&self.piece)
        plain.op = LOAD if code.op == SULD else STORE
        for k in range(4):
            plain.src[1 + k] = code.src[4 + k] if code.op == SUST else -1
        return self.access_space(&plain, &self.piece, GLOBAL, self.piece_places) if n else UNFINISHED

    cdef const Texture* texture_of(self, const Code* code, int64_t lane) noexcept nogil:
        """Return the texture that a lane names; NULL, and the lane as the thread of the error, if there is none."""
        cdef uint64_t handle = self.row(code.src[0])[lane]
        cdef int64_t i
        if self.textures[self.last_texture].handle != handle:
            for i in range(self.texture_count):
                if self.textures[i].handle == handle:
                    self.last_texture = i
                    return self.textures + i
            self.thread = lane
            return NULL
        return self.textures + self.last_texture
