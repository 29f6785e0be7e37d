"""Test the reader of Nsight Compute reports: both forms, the text between rows, and rates from any set of counters."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.comparison.nsight import (
    COLLECTED_METRICS,
    L2_READ_METRICS,
    NCU_COMMAND,
    OPERATION_SUFFIXES,
    Measurement,
    base_name,
    merge_launches,
    parse_report_number,
    read_ncu,
)
from rdmodel.errors import ConfigError, TraceError, escape_unprintable
from rdmodel.results.metrics import SECTOR_METRIC
from tests.support.examples import examples
from tests.support.paths import DATA as TEST_DATA

DATA = TEST_DATA / "ncu"
LD, LD_HIT, LD_MISS = (f"{SECTOR_METRIC}ld{end}.sum" for end in ("", "_lookup_hit", "_lookup_miss"))
ST, ST_HIT = f"{SECTOR_METRIC}st.sum", f"{SECTOR_METRIC}st_lookup_hit.sum"
READ, READ_HIT = f"{L2_READ_METRICS[0]}.sum", f"{L2_READ_METRICS[0]}_lookup_hit.sum"


def measured(kernel: str = "k", **metrics: float) -> Measurement:
    return Measurement(kernel=kernel, launches=("0",), grid=None, block=None, metrics=metrics)


def of(metrics: dict[str, float]) -> Measurement:
    return Measurement(kernel="k", launches=("0",), grid=None, block=None, metrics=metrics)


def report(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "report.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


HEAD = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
WIDE = f'"ID","Kernel Name","{LD}","{LD_HIT}"'


# ---- forms


def test_both_forms_of_a_report_say_the_same():
    long, wide = read_ncu(DATA / "long.csv"), read_ncu(DATA / "wide.csv")
    assert long == wide
    assert [(one.name, one.launches, one.grid, one.block) for one in long] == [
        ("atax_kernel1", ("0",), (1, 1, 1), (256, 1, 1)),
        ("atax_kernel2", ("1",), (1, 1, 1), (256, 1, 1)),
        ("atax_kernel2", ("2",), (1, 1, 1), (256, 1, 1)),
        ("atax_kernel2", ("3",), (2, 1, 1), (256, 1, 1)),
    ]
    assert long[0].metrics[LD] == 67584
    assert f"{SECTOR_METRIC}atom_lookup_hit.sum" not in long[0].metrics  # "n/a"


def test_the_sample_has_the_rates_of_its_counters():
    first = read_ncu(DATA / "wide.csv")[0]
    assert first.l1_loads.hit_rate == 2011 / 67584
    assert first.l1_loads.metrics == (LD_HIT, LD)
    assert first.l1.hit_rate == (2011 + 8114) / (67584 + 8192)
    assert first.l2.hit_rate == 61002 / 65573
    assert first.to_dict()["l1_loads"] == {"hit_rate": 2011 / 67584, "sectors": 67584, "metrics": [LD_HIT, LD]}


def test_the_default_pages_have_rates_under_other_names():
    first = read_ncu(DATA / "rtx3050ti.csv")[0]
    assert (first.name, first.grid, first.block) == ("gemm_kernel", (16, 64, 1), (32, 8, 1))
    assert first.l1_loads is None
    assert (first.l1.hit_rate, first.l1.sectors, first.l1.metrics) == (0.9430, None, ("L1/TEX Hit Rate",))
    assert (first.l2.hit_rate, first.l2.metrics) == (0.9932, ("L2 Hit Rate",))


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)


def test_a_grid_of_thousands_of_digits_is_none_that_the_report_says(tmp_path):
    head = '"ID","Kernel Name","Grid Size","Metric Name","Metric Unit","Metric Value"'
    for digits, grid in ((18, (int("9" * 18), 1, 1)), (19, None), (5000, None)):
        path = report(tmp_path, head, f'"0","k","({"9" * digits}, 1, 1)","{LD}","sector","1"')
        assert read_ncu(path)[0].grid == grid


def test_names_with_control_characters_are_read_with_escapes(tmp_path):
    path = report(tmp_path, HEAD, f'"0","k\x1b[2J\u2028","{LD}","sector","1"')
    assert read_ncu(path)[0].kernel == r"k\x1b[2J\u2028"


@examples(60)
@given(
    launches=st.lists(
        st.tuples(CELLS, st.lists(st.integers(0, 2**50), min_size=3, max_size=3)), min_size=1, max_size=4
    ),
    noise=st.lists(CELLS, max_size=3),
)
def test_any_report_reads_the_same_in_both_forms(tmp_path_factory, launches, noise):
    names = [LD, LD_HIT, "dram__bytes.sum"]
    head = ["ID", "Process ID", "Kernel Name"]
    long = [[*head, "Metric Name", "Metric Unit", "Metric Value"]]
    wide = [[*head, *names], [""] * 3 + ["sector"] * 3]
    for i, (kernel, values) in enumerate(launches):
        texts = [f"{value:,}" for value in values]
        long += [[str(i), "7", kernel, name, "sector", text] for name, text in zip(names, texts, strict=True)]
        wide.append([str(i), "7", kernel, *texts])
    folder = tmp_path_factory.mktemp("ncu")
    found = []
    for form, rows in (("long", long), ("wide", wide)):
        with (folder / form).open("w", encoding="utf-8", newline="") as file:
            file.writelines(f"==PROF== {line}\n" for line in noise)
            csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
        found.append(read_ncu(folder / form))
    assert found[0] == found[1]
    assert [one.kernel for one in found[0]] == [escape_unprintable(kernel) for kernel, _ in launches]
    assert [list(one.metrics.values()) for one in found[0]] == [values for _, values in launches]


def test_a_report_that_powershell_wrote_is_read(tmp_path):
    for encoding in ("utf-16", "utf-16-be"):
        text = (DATA / "wide.csv").read_text()
        path = tmp_path / "report.csv"
        path.write_bytes((b"\xfe\xff" if encoding == "utf-16-be" else b"") + text.encode(encoding))
        assert read_ncu(path) == read_ncu(DATA / "wide.csv")


def test_columns_are_found_by_name_wherever_they_stand(tmp_path):
    path = report(tmp_path, f'"{LD_HIT}","Kernel Name","other","{LD}","ID"', '"50","k(int)","x","100","12"')
    (one,) = read_ncu(path)
    assert (one.kernel, one.launches, one.l1_loads.hit_rate) == ("k(int)", ("12",), 0.5)


def test_launches_of_several_processes_with_the_same_id_are_kept_apart(tmp_path):
    head = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
    rows = [f'"0","{process}","k","{LD}","sector","{process}"' for process in (1, 2)]
    assert [one.metrics[LD] for one in read_ncu(report(tmp_path, head, *rows))] == [1, 2]


def test_reports_one_after_the_other_are_read_as_one(tmp_path):
    path = report(tmp_path, HEAD, f'"0","a","{LD}","","8"', "==PROF== again", WIDE, '"","","",""', '"1","b","5","4"')
    assert [(one.kernel, one.metrics) for one in read_ncu(path)] == [("a", {LD: 8}), ("b", {LD: 5, LD_HIT: 4})]


def test_what_a_program_prints_between_the_rows_is_left_out(tmp_path):
    rows = [f'"0","k","{LD}","sector","10"', 'he said "yes, twice', "1,2", '"x","k","y","z","1"', '""', ",,,,", "\x00"]
    (one,) = read_ncu(report(tmp_path, "hello", HEAD, *rows, f'"0","k","{LD_HIT}","sector","5"'))
    assert one.metrics == {LD: 10, LD_HIT: 5}


def test_thousands_of_sectors_are_sectors(tmp_path):
    path = report(tmp_path, HEAD, f'"0","k","{LD}","Ksector","1.5"', f'"0","k","{LD_HIT}","Msector","0.001"')
    assert read_ncu(path)[0].metrics == {LD: 1500, LD_HIT: 1000}


# ---- numbers and names


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1048576", 1048576),
        ("1,048,576", 1048576),
        ("1,048,576.25", 1048576.25),
        ("1.048.576", 1048576),
        ("1.048.576,25", 1048576.25),
        ("1 048 576,25", 1048576.25),
        ("1\u202f048\u202f576", 1048576),
        ("1\u00a0048", 1048),
        ("1'048'576", 1048576),
        ("12,345", 12345),
        ("93,92", 93.92),
        ("93.92", 93.92),
        ("94.305", 94.305),
        ("1e+06", 1e6),
        ("-3", -3),
    ],
)
def test_numbers_of_every_locale(text, value):
    assert parse_report_number(text) == value


@pytest.mark.parametrize(
    "text", ["", "n/a", "nan", "inf", "1e999", "9" * 400, "0x10", "12 %", ".", ",", "1,2,x", "--1"]
)
def test_what_is_no_number(text):
    assert parse_report_number(text) is None


@examples(200)
@given(text=st.text(max_size=30))
def test_any_text_is_a_number_or_none(text):
    assert parse_report_number(text) is None or isinstance(parse_report_number(text), float)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("gemm_kernel(int, float *)", "gemm_kernel"),
        ("gemm_kernel", "gemm_kernel"),
        ("void reduce<float, (int)256>(T1 *, T1 *)", "reduce"),
        ("void ns::inner<a::b<int>>::run<float>(int)", "run"),
        ("void <unnamed>::kernel(int)", "kernel"),
        ("(anonymous namespace)::kernel(int)", "kernel"),
        ("", ""),
        ("<<>>", "<<>>"),
    ],
)
def test_the_name_of_a_kernel_is_what_is_left_without_types(kernel, name):
    assert base_name(kernel) == name
    assert measured(kernel).name == name


# ---- rates


@pytest.mark.parametrize(
    ("metrics", "rate", "used"),
    [
        ({LD: 10, LD_HIT: 4}, 0.4, (LD_HIT, LD)),
        ({LD: 10, LD_MISS: 6}, 0.4, (LD_MISS, LD)),
        ({LD_HIT: 4, LD_MISS: 6}, 0.4, (LD_HIT, LD_MISS)),
        ({LD: 10, LD_HIT: 10.05}, 1.0, (LD_HIT, LD)),
        (
            {"l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct": 40.0},
            0.4,
            ("l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct",),
        ),
    ],
)
def test_the_rate_of_loads_is_read_from_what_there_is(metrics, rate, used):
    assert of(metrics).l1_loads.hit_rate == pytest.approx(rate)
    assert of(metrics).l1_loads.metrics == used


@pytest.mark.parametrize("metrics", [{}, {LD: 0, LD_HIT: 0}, {LD: 10}, {LD_HIT: 4}, {ST: 3, ST_HIT: 1}])
def test_without_counters_of_loads_there_is_no_rate_of_loads(metrics):
    assert of(metrics).l1_loads is None


def test_the_rate_of_the_l1_counts_the_operations_that_were_measured():
    loads_and_stores = {LD: 10, LD_HIT: 4, ST: 10, ST_HIT: 10}
    assert of(loads_and_stores).l1.hit_rate == 0.7
    others = {f"{SECTOR_METRIC}{op}{end}.sum": n for op in ("red", "atom") for end, n in (("", 10), ("_lookup_hit", 1))}
    assert of(loads_and_stores | others).l1.hit_rate == 0.4
    assert of({LD: 10, LD_HIT: 4}).l1 is None
    assert of({LD: 10, LD_HIT: 4, "l1tex__t_sector_hit_rate.pct": 70.0}).l1.metrics == ("l1tex__t_sector_hit_rate.pct",)


def test_the_rate_of_the_l2_is_of_the_l1s_reads_if_they_are_told_apart():
    every = {
        f"{L2_READ_METRICS[1]}.sum": 10,
        f"{L2_READ_METRICS[1]}_lookup_hit.sum": 2,
        "lts__t_sector_hit_rate.pct": 30.0,
    }
    assert of({READ: 10, READ_HIT: 1, **every}).l2.hit_rate == 0.1
    assert of(every).l2.hit_rate == 0.2
    assert of({"lts__t_sector_hit_rate.pct": 30.0}).l2.hit_rate == 0.3
    assert of({}).l2 is None


def test_counters_that_cannot_be_are_refused():
    for metrics in ({LD: 10, LD_HIT: 11}, {LD: 10, LD_HIT: -1}, {LD: -10, LD_HIT: -2}, {LD: 10, LD_MISS: 12}):
        with pytest.raises(TraceError, match=r"hits of -?10 sectors: the counters .* contradict each other"):
            of(metrics).l1_loads  # noqa: B018
    with pytest.raises(TraceError, match="L1/TEX Hit Rate=943: must be 0 to 100 %"):
        of({"L1/TEX Hit Rate": 943}).l1  # noqa: B018


def test_launches_together_add_counters_and_average_rates():
    parts = [
        Measurement(kernel="k", launches=(str(i),), grid=(i, 1, 1), block=(32, 1, 1), metrics=metrics)
        for i, metrics in enumerate([{LD: 10, LD_HIT: 0, "a.pct": 10, "b": 1}, {LD: 30, LD_HIT: 30, "a.pct": 20}])
    ]
    both = merge_launches(parts)
    assert both.metrics == {LD: 40, LD_HIT: 30, "a.pct": 15}
    assert (both.launches, both.grid, both.block) == (("0", "1"), None, (32, 1, 1))
    assert both.l1_loads.hit_rate == 0.75
    assert merge_launches(parts[:1]) is parts[0]
    with pytest.raises(ConfigError, match="must hold at least one launch"):
        merge_launches([])


def test_the_command_collects_what_is_read():
    for name in COLLECTED_METRICS:
        assert name in NCU_COMMAND
    everything = of(dict.fromkeys(COLLECTED_METRICS, 1.0))
    assert len(everything.l1.metrics) == 2 * len(OPERATION_SUFFIXES)
    assert everything.l1_loads.sectors == everything.l2.sectors == 1


# ---- bad input


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no line has the columns ID and Kernel Name"),
        (["a,b", "1,2"], "no line has the columns ID and Kernel Name"),
        (["==ERROR== ERR_NVGPUCTRPERM - no permission"], "Nsight Compute says: '==ERROR== ERR_NVGPUCTRPERM"),
        ([HEAD], "holds no kernel launches"),
        ([WIDE, '"","","sector","sector"'], "holds no kernel launches"),
        (
            [HEAD, f'"0","k","{LD}","sector","10"', f'"0","k","{LD}","sector","11"'],
            f":3: {LD} of one launch is '11' here and 10 above",
        ),
    ],
)
def test_what_is_no_report_is_refused(tmp_path, lines, message):
    path = report(tmp_path, *lines)
    with pytest.raises(TraceError) as error:
        read_ncu(path)
    assert str(error.value).startswith(f"{path}:")
    assert message in str(error.value)


def test_what_cannot_be_read_is_refused(tmp_path):
    for path, why in ((tmp_path / "none", "No such file"), (tmp_path, "is a folder")):
        with pytest.raises(TraceError, match=f"{path}: {why}"):
            read_ncu(path)


@examples(150)
@given(data=st.data())
def test_a_damaged_report_is_an_error_or_a_report(tmp_path_factory, data):
    content = bytearray((DATA / data.draw(st.sampled_from(["long.csv", "wide.csv"]))).read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=6)):
        content[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("ncu") / "report.csv"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        for one in read_ncu(path):
            one.to_dict()
    except TraceError:
        pass
