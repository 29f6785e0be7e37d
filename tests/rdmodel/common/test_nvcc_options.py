"""Options of nvcc, as users pass them to a compiler."""

from __future__ import annotations

import pytest

from rdmodel.common.nvcc_options import NvccOptions, read_nvcc_options, split_nvcc_options


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("-maxrregcount=32", NvccOptions(passed=("--maxrregcount=32",))),
        ("-maxrregcount 32 -std=c++17", NvccOptions(passed=("--maxrregcount=32", "--std=c++17"))),
        ("-O3 -g -lineinfo -lcublas -Xcompiler -Wall -w -m64 -ccbin g++", NvccOptions()),
        ("-arch=sm_90a --use_fast_math", NvccOptions("compute_90a", passed=("--use_fast_math",))),
        ("-gencode arch=compute_70,code=sm_70", NvccOptions("compute_70")),
        ("-Xptxas -v,-dlcm=cg", NvccOptions(dlcm="cg")),
        ("--ptxas-options=-dlcm=ca", NvccOptions(dlcm="ca")),
        ("--expt-extended-lambda -rdc=true", NvccOptions(passed=("--extended-lambda",), relocatable=True)),
        ("--relocatable-device-code false -rdc true", NvccOptions(relocatable=True)),
        ("-rdc=true -rdc=false", NvccOptions()),
        ("-dc", NvccOptions(relocatable=True)),
        ("--fancy-option", NvccOptions(passed=("--fancy-option",))),
        ("-maxrregcount", NvccOptions(passed=("--maxrregcount=",))),
        ("-arch=native", NvccOptions()),
    ],
)
def test_options_are_read_for_what_they_change(words, wanted):
    assert read_nvcc_options(words.split()) == wanted


def test_a_command_line_is_split_into_its_own_words_and_those_of_nvcc():
    words = "k.cu -O3 --grid 4 -maxrregcount 32 -Xptxas -dlcm=ca --shared 64 -DN=4 -unknown -- -O2"
    rest, options = split_nvcc_options(words.split(), ["--grid", "--shared", "-D"])
    assert rest == ["k.cu", "--grid", "4", "--shared", "64", "-DN=4", "-unknown", "--", "-O2"]
    assert options == ["-O3", "-maxrregcount=32", "-Xptxas=-dlcm=ca"]
