"""Textures and surfaces of CUDA programs: references, objects, and objects in structures."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rdmodel.trace.cache_ops import CacheOp
from tracegen import cuda
from tracegen.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

REFERENCES = """
texture<float, 2, cudaReadModeElementType> picture;
texture<float4, 1> points;
surface<void, 2> output;
__global__ void k(float *x) {
  int i = threadIdx.x;
  x[i] = tex2D(picture, i + 0.5f, blockIdx.x + 0.5f) + tex1Dfetch(points, i).y;
  surf2Dwrite(x[i], output, i * 4, blockIdx.x);
}
"""

OBJECTS = """
struct Image { cudaTextureObject_t texels; int width; };
__global__ void k(float *x, Image image, const cudaTextureObject_t *many, cudaSurfaceObject_t surface) {
  int i = threadIdx.x;
  float value = tex2D<float>(image.texels, i, 1) + tex2D<float>(many[1], i, 2) + surf2Dread<float>(surface, i * 4, 0);
  if (i < image.width) x[i] = value;
}
"""


def test_texture_references_are_filled_as_symbols_and_leave_no_loads_of_handles():
    picture = np.random.default_rng(0).random((4, 32), np.float32)
    points = np.random.default_rng(1).random((32, 4), np.float32)
    x, output = np.zeros(32, np.float32), np.zeros((4, 32), np.float32)
    symbols = {"symbol:picture": picture, "symbol:points": points, "symbol:output": output}
    trace = cuda.trace(REFERENCES, "k", 4, 32, {"x": x, **symbols}, check=True)
    assert (x == picture[3] + points[:, 1]).all()
    np.testing.assert_array_equal(output, picture + points[:, 1])
    columns = trace.block(0)
    assert columns.cache_op.tolist() == [CacheOp.TEX, CacheOp.TEX, 0, 0]
    assert columns.size.tolist() == [4, 16, 4, 4]


def test_texture_objects_stand_in_structures_and_in_arrays():
    pictures = [np.random.default_rng(seed).random((4, 32), np.float32) for seed in range(4)]
    x = np.zeros(32, np.float32)
    args = {"x": x, "image": {"texels": pictures[0], "width": 20}, "many": pictures[1:3], "surface": pictures[3]}
    cuda.trace(OBJECTS, "k", 1, 32, args, check=True)
    wanted = pictures[0][1] + pictures[2][2] + pictures[3][0]
    assert (x == np.where(np.arange(32) < 20, wanted, 0)).all()


def test_a_texture_that_is_the_memory_of_another_argument_sees_what_kernels_stored(tmp_path):
    (tmp_path / "k.cu").write_text("""
    texture<int, 1> places;
    __global__ void fill(int *p) { p[threadIdx.x] = 31 - threadIdx.x; }
    __global__ void use(float *x) { x[tex1Dfetch(places, threadIdx.x)] = 1; }
    """)
    (tmp_path / "k.toml").write_text("""
    source = "k.cu"
    grid = 1
    block = 32
    [args]
    p = "int[32]"
    x = "float[32]"
    "symbol:places" = { texels = "&p" }
    [[launch]]
    kernel = "fill"
    [[launch]]
    kernel = "use"
    """)
    _, use = cuda.launches(tmp_path / "k.toml")
    columns = use.block(0)
    assert np.diff(columns.addresses[32:]).tolist() == [-4] * 31


def test_the_l1_serves_textures_since_maxwell_and_earlier_gpus_have_another_cache(run, tmp_path):
    (tmp_path / "k.cu").write_text("""
    __global__ void k(float *x, cudaTextureObject_t t) {
      x[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x) + tex1Dfetch<float>(t, threadIdx.x + 32);
    }
    """)
    command = ["predict", str(tmp_path / "k.cu"), "--grid", "1", "--block", "32", "--json"]
    command += ["--arg", "x=float[32]", "--arg", "t=float[64]"]
    for gpu, served in (("a100-80g", True), ("titan-x-pascal", True), ("gtx470-16k", False), ("k40c", False)):
        status, out, err = run(*command, "--gpu", gpu)
        assert (status, err) == (0, "")
        plain = json.loads(out)
        assert (plain["misses"]["compulsory"] > 0, plain["bypassed_requests"]) == (served, 0 if served else 2)
