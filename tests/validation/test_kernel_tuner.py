"""The records of runs of Kernel Tuner beside predicted times."""

import pytest

from rdmodel import presets
from tracegen.cuda import nvrtc
from validation.common.pages import tables_of
from validation.kernel_tuner import __main__ as study
from validation.kernel_tuner.spaces import SPACES, steps_of
from validation.tuning.predict import Task, read_config

needs_nvrtc = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

POINT = (
    "block_size_x=32 block_size_y=2 tile_size_x=3 tile_size_y=2 temporal_tiling_factor={steps} loop_unroll_factor_t=1 "
    "sh_power=0 blocks_per_sm=0"
)

KERNEL = """
__global__ void calculate_temp(float *power, float *temp, float *to, float rx, float ry, float rz, float step) {
  int x = blockIdx.x * block_size_x + threadIdx.x, y = blockIdx.y * block_size_y + threadIdx.y;
  if (x < grid_width && y < grid_height) {
    float sum = temp[(y + max_tfactor) * (grid_width + 2 * max_tfactor) + x + max_tfactor];
    for (int i = 0; i < temporal_tiling_factor; i++) sum = sum + 2.0 * rx;
    to[y * grid_width + x] = sum;
  }
}
"""


def test_the_page_is_that_of_the_records():
    assert tables_of(study.RESULTS) == study.page()


def test_every_measured_time_has_a_prediction():
    rows, found = study.measured(), study.predicted()
    assert [(row.space, row.config) for row in rows] == [row.key for row in found]
    assert {row.space for row in rows} == set(SPACES)
    assert all(row.milliseconds > 0 for row in rows)
    assert all(row.failure or row.milliseconds > 0 for row in found)


def test_the_rules_order_the_points_better_than_the_first_predictions():
    """The record, not a run: a renewed record has to hold this, too."""
    pairs = list(zip(study.measured(), study.predicted(), strict=True))
    for space in SPACES:
        own = [(row, found) for row, found in pairs if row.space == space and not found.failure]
        times = [row.milliseconds / steps_of(read_config(row.config)) for row, _ in own]
        first = [row.first / steps_of(read_config(row.config)) for row, _ in own]
        now = [found.milliseconds / steps_of(read_config(row.config)) for row, found in own]
        assert study.quality(now, times).tau > study.quality(first, times).tau


@needs_nvrtc
@pytest.mark.parametrize("space", [name for name in SPACES if name.startswith("hotspot")])
def test_a_launch_covers_the_grid_of_its_space_with_its_border(tmp_path, space):
    (tmp_path / "hotspot_milo.cu").write_text(KERNEL)
    width = 8192 if "1560" in space else 4096
    made = SPACES[space].program(tmp_path, read_config(POINT.format(steps=2)), 0)
    launch = made(read_config(POINT.format(steps=2))).launch
    assert (launch.block, launch.grid) == ((32, 2, 1), (-(-width // 96), width // 4, 1))
    assert sorted(array.bytes for array in launch.arrays) == [
        4 * width**2,
        4 * (width + 20) ** 2,
        4 * (width + 20) ** 2,
    ]
    assert made.architecture == ("sm_80" if "a100" in space else "sm_86")
    assert presets.gpu(SPACES[space].gpu).name == SPACES[space].gpu


@needs_nvrtc
def test_a_point_that_cannot_be_compiled_has_its_reason(tmp_path):
    (tmp_path / "hotspot_milo.cu").write_text("__global__ void calculate_temp() { undeclared; }")
    found = study.predict(Task("hotspot a4000", POINT.format(steps=1), str(tmp_path)))
    assert "undeclared" in found.failure


def test_only_tiles_with_several_steps_count_by_them():
    assert steps_of(read_config(POINT.format(steps=7))) == 7
    assert steps_of({"MWG": 16}) == 1
