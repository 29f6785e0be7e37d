"""Textures and surfaces: the texels that lanes read, the places they have in memory, and mistakes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import ConfigError, TraceError
from rdmodel.trace.cache_ops import CacheOp
from tests.support.examples import examples
from tests.support.ptx_kernels import HEAD
from tracegen import cuda
from tracegen.ptx.emulator.textures import TextureOptions, block_height, block_places, make_texture

_KERNEL = """
.visible .entry k(.param .u64 t, .param .u64 x, .param .u64 out) {{
  .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, [x]; ld.param.u64 %rd3, [out];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 16; add.s64 %rd5, %rd2, %rd4; add.s64 %rd6, %rd3, %rd4;
  ld.global.v4.u32 {{%r2, %r3, %r4, %r5}}, [%rd5];
  mov.b32 %f1, %r2; mov.b32 %f2, %r3; mov.b32 %f3, %r4;
  {body}
  st.global.v4.u32 [%rd6], {{%r6, %r7, %r8, %r9}}; ret; }}
"""
_R = "{%r6, %r7, %r8, %r9}"


def read(body, texture, coordinates):
    """Return what 32 lanes read from a texture, and the trace; `coordinates` has x, y, z of each lane."""
    given = np.zeros((32, 4), np.asarray(coordinates).dtype)
    given[:, : np.asarray(coordinates).shape[1]] = coordinates
    out = np.zeros((32, 4), np.uint32)
    kernel = HEAD + _KERNEL.format(body=body)
    trace = cuda.trace(kernel, "k", 1, 32, [texture, given.view(np.uint32), out], check=True)
    return out, trace


def texture_rows(trace):
    """Return the addresses of the loads of textures, one array per instruction."""
    columns = trace.block(0)
    start = columns.address_start
    return [columns.addresses[start[i] : start[i + 1]] for i in np.flatnonzero(columns.cache_op == CacheOp.TEX)]


def base_of(trace, name="t"):
    return next(array.base for array in trace.launch.arrays if array.name == name)


# ---- one dimension


def test_a_fetch_reads_the_texel_and_zeros_outside():
    texels = np.arange(100, dtype=np.float32) + 1
    places = np.arange(32, dtype=np.int32)[:, None] * 5 - 10
    out, trace = read(f"tex.1d.v4.u32.s32 {_R}, [%rd1, {{%r2}}];", texels, places)
    wanted = np.array([texels[p] if 0 <= p < 100 else 0 for p in places.ravel()], np.float32)
    assert (out[:, 0].view(np.float32) == wanted).all()
    assert (out[:, 3] == 1).all()  # the missing component
    inside = places[(places >= 0) & (places < 100)]
    (row,) = texture_rows(trace)
    assert row.tolist() == (base_of(trace) + 4 * inside).tolist()


def test_components_come_from_the_last_axis():
    texels = np.arange(64, dtype=np.int16).reshape(16, 4) - 9
    places = np.arange(32, dtype=np.int32)[:, None] % 16
    out, trace = read(f"tex.1d.v4.s32.s32 {_R}, [%rd1, {{%r2}}];", texels, places)
    assert (out.view(np.int32) == texels[places.ravel()]).all()
    columns = trace.block(0)
    assert columns.size[columns.cache_op == CacheOp.TEX].tolist() == [8]


def test_whole_numbers_that_are_read_as_fractions_are_normalised():
    texels = np.array([0, 51, 255, 128], np.uint8)
    places = np.arange(32, dtype=np.int32)[:, None] % 4
    out, _ = read(f"tex.1d.v4.f32.s32 {_R}, [%rd1, {{%r2}}];".replace("%r6", "%f6").replace("%r7", "%f7")
                  .replace("%r8", "%f8").replace("%r9", "%f9") + " mov.b32 %r6, %f6;", texels, places)  # fmt: skip
    assert out[:4, 0].view(np.float32).tolist() == pytest.approx([0, 0.2, 1, 128 / 255])


@pytest.mark.parametrize(
    ("address", "wanted"),
    [("clamp", [0, 0, 3, 3]), ("wrap", [3, 2, 0, 1]), ("mirror", [0, 1, 3, 2]), ("border", [None] * 4)],
)
def test_coordinates_outside_follow_the_address_mode(address, wanted):
    texels = np.arange(4, dtype=np.int32) + 1
    given = (np.array([-1, -2, 4, 5] * 8, np.float32)[:, None] + 0.5) / 4
    value = {"texels": texels, "normalized": True, "address": address}
    out, _ = read(f"tex.1d.v4.s32.f32 {_R}, [%rd1, {{%f1}}];", value, given)
    assert out[:4, 0].tolist() == [0 if at is None else at + 1 for at in wanted]


# ---- blocks


@pytest.mark.parametrize(
    ("x", "y", "place"),
    [(0, 0, 0), (15, 0, 15), (16, 0, 32), (0, 1, 16), (0, 2, 64), (32, 0, 256), (63, 7, 511), (0, 8, 512),
     (64, 0, 1024), (0, 16, 2048)],
)  # fmt: skip
def test_bytes_of_a_picture_lie_in_pieces_of_64_bytes_by_8_rows(x, y, place):
    # Two pieces on top of each other: columns of 64 bytes are 1,024 bytes apart, and the next 16 rows 2,048.
    assert block_places(128, 32, 2)[y, x] == place


@pytest.mark.parametrize(("height", "block"), [(1, 1), (8, 1), (9, 2), (33, 8), (128, 16), (4096, 16)])
def test_blocks_are_as_high_as_the_picture_up_to_16_pieces(height, block):
    assert block_height(height) == block


@examples(20)
@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from(["u1", "i2", "f4", "u8"]), st.sampled_from([1, 2, 4]))
def test_every_texel_has_a_place_of_its_own_from_which_it_is_read_back(height, width, dtype, components):
    array = np.random.default_rng(0).integers(0, 100, (height, width, components)).astype(dtype)
    texture = make_texture("t", array, {2}, TextureOptions())
    assert texture.block
    places = block_places(texture.bytes_of_row, height, texture.block)
    assert len(np.unique(places)) == places.size == array.nbytes
    assert (texture.content[places].reshape(-1) == array.view(np.uint8).reshape(-1)).all()
    back = np.zeros_like(array)
    texture.update(back)
    assert (back == array).all()


@examples(16)
@given(st.data())
def test_a_picture_is_read_at_the_coordinates_of_each_lane(data):
    height, width, layers = (data.draw(st.integers(1, 40)) for _ in range(3))
    volume, layered = data.draw(st.booleans()), data.draw(st.booleans())
    shape = (layers, height, width) if volume or layered else (height, width)
    texels = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    layout = data.draw(st.sampled_from(["block", "rows"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    at = rng.uniform(-3, 45, (32, 3)).astype(np.float32)
    near = np.clip(np.floor(at).astype(int), 0, np.array([width, height, layers]) - 1)
    if layered:
        whole = rng.integers(-2, 45, 32).astype(np.int32)
        at[:, 2] = whole.view(np.float32)
        near[:, 2] = np.clip(whole, 0, layers - 1)
        body = f"tex.a2d.v4.s32.f32 {_R}, [%rd1, {{%r4, %f1, %f2, %f2}}];"
    elif volume:
        body = f"tex.3d.v4.s32.f32 {_R}, [%rd1, {{%f1, %f2, %f3, %f3}}];"
    else:
        body, near[:, 2] = f"tex.2d.v4.s32.f32 {_R}, [%rd1, {{%f1, %f2}}];", 0
    out, trace = read(body, {"texels": texels, "layout": layout}, at)
    assert (out[:, 0] == texels.reshape(-1, height, width)[near[:, 2], near[:, 1], near[:, 0]]).all()
    assert any("blocks of 64 bytes" in note for note in trace.notes) == (layout == "block")
    block = block_height(height)
    places = block_places(4 * width, height, block)[:, ::4]
    size = -(-4 * width // 64) * -(-height // (8 * block)) * block * 512
    if layout == "rows":
        places, size = np.arange(height * width).reshape(height, width) * 4, 4 * height * width
    (row,) = texture_rows(trace)
    assert (row == base_of(trace) + near[:, 2] * size + places[near[:, 1], near[:, 0]]).all()


# ---- filters


def test_a_linear_filter_weighs_four_texels_and_reads_each_32_bytes_once():
    texels = np.random.default_rng(1).random((64, 64)).astype(np.float32)
    at = np.random.default_rng(2).uniform(1, 60, (32, 2)).astype(np.float32)
    registers = "{%f6, %f7, %f8, %f9}"
    body = f"tex.2d.v4.f32.f32 {registers}, [%rd1, {{%f1, %f2}}]; mov.b32 %r6, %f6;"
    out, trace = read(body, {"texels": texels, "filter": "linear"}, at)
    first = np.floor(at - 0.5).astype(int)
    part = at - 0.5 - first
    x, y = first.T
    wanted = (1 - part[:, 1]) * ((1 - part[:, 0]) * texels[y, x] + part[:, 0] * texels[y, x + 1])
    wanted += part[:, 1] * ((1 - part[:, 0]) * texels[y + 1, x] + part[:, 0] * texels[y + 1, x + 1])
    assert out[:, 0].view(np.float32) == pytest.approx(wanted, rel=1e-5)
    places = block_places(256, 64, block_height(64))[:, ::4] + base_of(trace)
    sectors = {(i, places[y[i] + dy, x[i] + dx] // 32) for i in range(32) for dy in (0, 1) for dx in (0, 1)}
    read_places = np.concatenate(texture_rows(trace))
    assert len(read_places) == len(sectors)
    assert {place // 32 for place in read_places} == {sector for _, sector in sectors}


def test_a_gather_returns_one_component_of_four_texels_counter_clockwise():
    texels = np.arange(64, dtype=np.int32).reshape(8, 8)
    at = np.full((32, 2), 3.0, np.float32)
    out, _ = read(f"tld4.r.2d.v4.s32.f32 {_R}, [%rd1, {{%f1, %f2}}];", texels, at)
    assert out[0].tolist() == [texels[3, 2], texels[3, 3], texels[2, 3], texels[2, 2]]


# ---- surfaces


def test_a_surface_is_written_and_read_at_bytes_and_rows():
    surface = np.zeros((20, 30), np.int32)
    x = np.arange(32, dtype=np.int32) % 30
    y = np.arange(32, dtype=np.int32) // 2
    body = "sust.b.2d.b32.trap [%rd1, {%r10, %r3}], {%r1}; suld.b.2d.b32.zero {%r6}, [%rd1, {%r10, %r3}];"
    out, trace = read(f"shl.b32 %r10, %r2, 2; {body}", surface, np.stack([x, y], 1))
    wanted = np.zeros_like(surface)
    wanted[y, x] = np.arange(32)
    assert (surface == wanted).all()
    assert (out[:, 0] == np.arange(32)).all()
    (row,) = texture_rows(trace)
    assert (row == base_of(trace) + block_places(120, 20, 4)[y, 4 * x]).all()


@pytest.mark.parametrize(("mode", "value"), [("clamp", 7), ("zero", 0)])
def test_a_surface_outside_its_borders_follows_its_mode(mode, value):
    surface = np.full((4, 4), 7, np.int32)
    out, _ = read(f"suld.b.2d.b32.{mode} {{%r6}}, [%rd1, {{%r2, %r3}}];", surface, np.full((32, 2), 90, np.int32))
    assert (out[:, 0] == value).all()


def test_a_surface_that_traps_stops_outside_its_borders():
    with pytest.raises(TraceError, match=r"suld\.b\.2d\.b32\.trap .* across the end of t"):
        read(
            "suld.b.2d.b32.trap {%r6}, [%rd1, {%r2, %r3}];", np.zeros((4, 4), np.int32), np.full((32, 2), 90, np.int32)
        )


# ---- data and mistakes


@pytest.mark.parametrize("body", [
    "suld.b.2d.trap {%r6}, [%rd1, {%r2, %r3}];", "sust.p.2d.b32.trap [%rd1, {%r2, %r3}], {%r6};",
    "sust.b.2d.pred.trap [%rd1, {%r2, %r3}], {%r6};", f"tex.cube.v4.s32.f32 {_R}, [%rd1, {{%f1, %f2, %f3, %f3}}];",
])  # fmt: skip
def test_accesses_that_are_not_executed_stop_with_their_names(body):
    with pytest.raises(TraceError, match=re.escape(f"{body.split()[0]} cannot be executed")):
        read(body, np.zeros((4, 4), np.int32), np.zeros((32, 2), np.int32))


def test_addresses_may_depend_on_texels():
    texels = np.random.default_rng(0).permutation(32).astype(np.int32)
    body = f"tex.1d.v4.u32.s32 {_R}, [%rd1, {{%r2}}]; tex.1d.v4.u32.s32 {_R}, [%rd1, {{%r6}}];"
    places = np.arange(32, dtype=np.int32)[:, None]
    out, trace = read(body, texels, places)
    assert (out[:, 0] == texels[texels]).all()
    assert (texture_rows(trace)[1] == base_of(trace) + 4 * texels).all()
    columns = trace.block(0)
    second = np.flatnonzero(columns.cache_op == CacheOp.TEX)[1]
    assert columns.needs[second] & 1


def test_a_handle_of_no_texture_stops_with_advice():
    with pytest.raises(TraceError, match=r"tex\.1d\.v4\.u32\.s32: the handle is that of no texture: give an array"):
        read(f"tex.1d.v4.u32.s32 {_R}, [%rd1, {{%r2}}];", 0, np.zeros((32, 1), np.int32))


@pytest.mark.parametrize(
    ("texture", "message"),
    [
        (np.zeros(4, np.int32), "texture t: has shape 4, must have 2 dimensions"),
        (np.zeros((4, 4), np.float64), "texture t: is an array of float64"),
        ({"texels": "float[4,4]", "filter": "cubic"}, "texture t: unknown filter 'cubic'"),
        ({"texels": "float[4,4]", "filtr": "linear"}, "argument t.filtr='linear': must be a number"),
        ({"texels": 3}, "texture t: texels must be an array"),
        ("{texels=float[4,4], normalized=2}", "texture t: normalized='2': must be true or false"),
    ],
)
def test_a_texture_that_cannot_be_is_refused(texture, message):
    kernel = HEAD + _KERNEL.format(body=f"tex.2d.v4.s32.f32 {_R}, [%rd1, {{%f1, %f2}}];")
    with pytest.raises(ConfigError, match=re.escape(message)):
        cuda.trace(kernel, "k", 1, 32, {"t": texture, "x": "int[32,4]", "out": "int[32,4]"})


def test_a_texture_reference_of_ptx_is_filled_as_a_symbol():
    text = HEAD + ".global .texref picture;" + _KERNEL.format(body=f"tex.1d.v4.u32.s32 {_R}, [picture, {{%r2}}];")
    out = np.zeros((32, 4), np.uint32)
    args = {"t": 0, "x": np.arange(128, dtype=np.int32), "out": out, "symbol:picture": np.arange(200, dtype=np.int32)}
    cuda.trace(text, "k", 1, 32, args, check=True)
    assert out[:, 0].tolist() == [4 * i for i in range(32)]
    with pytest.raises(TraceError, match="for a texture reference"):
        cuda.trace(text, "k", 1, 32, {**{k: v for k, v in args.items() if "symbol" not in k}}, check=True)
    with pytest.raises(ConfigError, match=r"variable picture: is a reference to a texture or a surface: give an array"):
        cuda.trace(text, "k", 1, 32, {**args, "symbol:picture": 4})
