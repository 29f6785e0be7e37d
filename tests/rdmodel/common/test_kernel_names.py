"""Names of kernels in the source, from the demangled and mangled names that tools write."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.common.kernel_names import base_name, without_parameters
from tracegen.formats.launch_entries import LaunchChoice

MANGLED = {
    "_Z4gemmPf": "gemm",
    "_Z6vecAddPKdS0_Pdi": "vecAdd",
    "_ZL6kernelPf": "kernel",
    "_Z6reduceIfLi256EEvPT_S1_": "reduce",
    "_Z1kIA10_fEvT_": "k",
    "_ZN2ns5scaleIfEEvPT_i": "scale",
    "_ZN12_GLOBAL__N_16kernelEPf": "kernel",
    "_ZN2ns1AIfLb1EE3runIiEEvPT_": "run",
    "_ZN2ns4funcINS_3fooINS_3barIiEEEEEEvT_": "func",
    "_ZN3cub18DeviceReduceKernelINS_18DeviceReducePolicyIiiN6thrust4plusIiEEE9Policy600EPiS6_iS4_EEvT0_T1_T2_": (
        "DeviceReduceKernel"
    ),
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEENS_6detail5ArrayIPcLi1EEEEEviT0_T1_": (
        "vectorized_elementwise_kernel"
    ),
}


@pytest.mark.parametrize("kernel", MANGLED)
def test_a_mangled_name_says_what_the_source_calls_the_kernel(kernel):
    assert base_name(kernel) == MANGLED[kernel]


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="needs c++filt")
@pytest.mark.parametrize("kernel", MANGLED)
def test_the_mangled_and_the_demangled_name_say_the_same(kernel):
    plain = subprocess.run(["c++filt", kernel], capture_output=True, text=True, check=True).stdout.strip()
    assert plain != kernel
    assert base_name(plain) == base_name(kernel)


@pytest.mark.parametrize("kernel", ["_Z", "_Zfoo", "_Z99a", "_ZNE", "_ZN3abc", "_ZN3abcI", "_ZN1aI99bE", "_ZNKclEv"])
def test_a_name_that_is_not_understood_is_left_as_it_is(kernel):
    assert base_name(kernel) == kernel


@given(st.text("_ZNISLTE0123456789abK:<>()", max_size=40), st.sampled_from(["", "_Z", "_ZN"]))
def test_no_text_is_too_strange_for_a_name(text, prefix):
    assert isinstance(base_name(prefix + text), str)
    assert (prefix + text).startswith(without_parameters(prefix + text))


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("scale(float*, int)", "scale"),
        ("void hist<int, (int)3>(int*, unsigned int*)", "void hist<int, (int)3>"),
        ("ns::(anonymous namespace)::scale<(bool)1>(int)", "ns::(anonymous namespace)::scale<(bool)1>"),
        ("scale", "scale"),
    ],
)
def test_parameters_begin_with_a_parenthesis_outside_of_template_arguments(kernel, name):
    assert without_parameters(kernel) == name


@pytest.mark.parametrize(
    "kernel",
    ["void hist<int, (int)3>(int*, unsigned int*)", "hist", "hist(int*)", "_Z4histIiLi3EEvPT_Pj", "_ZN2ns4histEPi"],
)
@pytest.mark.parametrize("wanted", ["hist", "his*", "*hist*"])
def test_a_launch_is_meant_by_what_the_source_calls_its_kernel(kernel, wanted):
    assert LaunchChoice("file", wanted).accepts(0, kernel)
    assert not LaunchChoice("file", "scale").accepts(0, kernel)
