"""``--param`` with several kernels: those that have the name take it."""

from __future__ import annotations

import json

import pytest

BOTH = ("--param", "NX=64", "--param", "NY=64", "--param", "N=64", "--json")


def sizes(out: str) -> list[dict[str, int]]:
    return [one["config"]["trace"]["params"] for one in json.loads(out)]


def test_kernels_take_the_sizes_that_they_have_and_notes_name_the_others(run):
    status, out, err = run("predict", "atax.1", "mvt.1", *BOTH)
    assert status == 0
    assert sizes(out) == [{"NX": 64, "NY": 64}, {"N": 64}]
    assert err.splitlines() == [
        "rdmodel: atax.1: has no N, so --param N does not apply to it",
        "rdmodel: mvt.1: has no NX and no NY, so --param NX, NY does not apply to it",
    ]


@pytest.mark.parametrize("command", ["simulate", "locality", "compare", "policies", "sweep", "time", "report"])
def test_every_command_with_several_kernels_shares_the_sizes(run, command):
    more = {
        "policies": ["--policies", "none", "--jobs", "1"],
        "sweep": ["--vary", "l1.ways=4", "--no-cache", "--jobs", "1"],
        "report": ["--no-what-if"],
        "compare": ["--latency", "100"],
    }.get(command, [])
    one_sm = ["--sms", "1"] if command in ("simulate", "locality", "compare", "policies") else []
    status, _, err = run(command, "atax.1", "mvt.1", *BOTH, "--gpu", "gtx470-16k", *one_sm, *more)
    assert status == 0, err
    assert err.count("does not apply to it") == 2


def test_a_name_that_no_kernel_has_is_an_error(run):
    status, out, err = run("predict", "atax.1", "mvt.1", "--param", "NZ=64")
    assert (status, out) == (2, "")
    assert err == "rdmodel: error: unknown size of these kernels 'NZ'; did you mean 'N' or 'NY' or 'NX'?\n"
    assert (
        run("predict", "mvt.1", "--param", "rows=64")[2] == "rdmodel: error: unknown size of mvt.1 'rows'; known: N\n"
    )


def test_one_kernel_given_twice_reports_a_name_that_it_lacks(run):
    assert run("predict", "mvt.1", "mvt.1", "--param", "NX=64")[0] == 2


def test_a_value_that_is_no_number_is_an_error_where_it_applies(run):
    status, _, err = run("predict", "mvt.1", "atax.1", "--param", "NX=many", "--param", "N=64")
    assert status == 2
    assert "param NX='many'" in err
