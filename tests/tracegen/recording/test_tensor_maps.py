"""Tensor maps that recorded programs encode are those of Python, so that the emulator can read them."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.recorded_programs import build_program
from tracegen.ptx.isa.tensor_map import TENSOR_TYPES, pixel_map, tensor_map
from tracegen.recording.libraries import stand_ins

PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
int cudaGetDriverEntryPoint(const char *, void **, unsigned long long, int *);
int cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, unsigned long long, int *);
static void print(int result, const unsigned char *map) {
  printf("%d ", result);
  for (int i = 0; i < 128; i++) printf("%02x", map[i]);
  puts("");
}
int main() {
  int (*tiled)(), (*pixels)(), (*move)(), (*none)(), status = 7, missing = 7;
  cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", (void **)&tiled, 0, &status);
  cudaGetDriverEntryPoint("cuTensorMapEncodeIm2col", (void **)&pixels, 0, 0);
  cudaGetDriverEntryPointByVersion("cuTensorMapReplaceAddress", (void **)&move, 12000, 0, 0);
  int refused = cudaGetDriverEntryPoint("cuNothing", (void **)&none, 0, &missing);
  printf("%d %d %d\n", status, missing, refused);
  unsigned char map[128];
  uint64_t dims[] = {64, 11, 9, 3}, strides[] = {128, 1408, 12672};
  uint32_t box[] = {32, 4, 3, 1}, steps[] = {1, 2, 1, 1};
  int lower[] = {-1, -2}, upper[] = {-3, 4};
  void *place = (void *)0x10000001000;
  for (int type = 0; type < 16; type++)
    print(tiled(map, type, 4, place, dims, strides, box, steps, 0, 0, 0, 0), map);
  print(pixels(map, 6, 4, place, dims, strides, lower, upper, 32, 100, steps, 0, 0, 0, 0), map);
  print(move(map, (void *)0x10000002000), map);
  printf("%d %d\n", tiled(map, 16, 4, place, dims, strides, box, steps, 0, 0, 0, 0),
         tiled(map, 6, 6, place, dims, strides, box, steps, 0, 0, 0, 0));
}
"""

TYPES = (*TENSOR_TYPES[:8], "f64", "bf16", "f32.ftz", *TENSOR_TYPES[11:])
"""Element types in the order of the driver interface."""

TENSOR = {"shape": (3, 9, 11, 64), "strides": (12672, 1408, 128), "steps": (1, 1, 2, 1)}
PLACE = 0x10000001000


@pytest.mark.parametrize("runtime", ["libcudart.so.12", "libcudart.so.13"])
def test_programs_and_python_make_the_same_maps(tmp_path, runtime):
    libraries = stand_ins([runtime])
    program = build_program(tmp_path, libraries, PROGRAM, runtime)
    environment = {"LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True, env=environment)
    first, *maps, last = done.stdout.splitlines()
    assert first == "0 1 500"
    assert last == "1 1"
    boxes = [tensor_map(PLACE, element, box=(1, 3, 4, 32), **TENSOR) for element in TYPES]
    corners = {"lower": (-2, -1), "upper": (4, -3), "channels": 32, "pixels": 100}
    pixels = [pixel_map(place, "f16", **corners, **TENSOR) for place in (PLACE, 0x10000002000)]
    assert maps == [f"0 {made.hex()}" for made in (*boxes, *pixels)]
