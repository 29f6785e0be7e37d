"""`rdmodel.report` and its page: the numbers are those of single calls, and the page is sound whatever it tells of."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError, TraceError
from rdmodel.reports import figures
from rdmodel.reports.build import usual_what_ifs
from rdmodel.reports.findings import findings
from rdmodel.trace import ALL_NEEDS, ArrayInfo, Op
from tests.support.builders import make_gpu, make_trace
from tests.support.examples import examples
from tests.support.html_page import SVG, Page

SIZES = {"NX": 512, "NY": 64, "block": (64, 1, 1)}
GPU = rd.presets.gpu("gtx470-16k").replace(sms=4)


def kernel(name: str = "atax.1", **sizes: object) -> rd.Trace:
    return tracegen.kernel(name, **{**SIZES, **sizes})


def timeless(value):
    if isinstance(value, dict):
        return {name: timeless(one) for name, one in value.items() if "seconds" not in name}
    return [timeless(one) for one in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def full() -> rd.Report:
    """Everything that a report can hold."""
    return rd.report(kernel(), GPU, definitions=["hardware", "paper"], l2=True, simulate=True, seed=3, sched="gto")


@pytest.fixture(scope="module")
def page(full: rd.Report) -> Page:
    return Page(full.to_html())


# ---- what is run


def test_its_parts_are_what_single_calls_return(full):
    [one] = full.kernels
    told = {"seed": 3, "l2": True, "ablation": True, "histogram": False}
    assert one.predictions == {
        "hardware": rd.predict(kernel(), GPU, sched="gto", **told),
        "paper": rd.predict(kernel(), GPU, definition="paper", **told),
    }
    told["ablation"] = False
    assert one.what_ifs == {
        name: rd.predict(kernel(), gpu, sched="gto", **told) for name, gpu in usual_what_ifs(GPU).items()
    }
    compared = rd.compare(kernel(), GPU, seed=3)
    assert one.comparison == compared
    assert timeless(one.locality.to_dict()) == timeless(rd.locality(kernel(), GPU, seed=3).to_dict())
    assert one.locality.simulation == compared.simulation
    assert one.source == one.kernel == "atax.1"
    json.dumps(full.to_dict(), allow_nan=False)


def test_reuse_distances_are_those_of_warps_that_take_turns():
    # One warp of one lane: its lines come in the order of the program, so that a list is all there is to know.
    lines = [0, 1, 2, 0, 0, 5, 1, 2, 7, 0, 5, 5]
    trace = make_trace([[[(Op.LOAD, ALL_NEEDS, 0, [line]) for line in lines]]], 1)
    [one] = rd.report(trace, make_gpu(), what_ifs={}, ablation=False).kernels
    assert one.histogram == rd.histogram(lines)
    assert one.curve(3).at(3) == rd.histogram(lines).miss_ratio(3)
    assert list(one.curve(3).sizes) == [1, 2, 3, 4, 5]


def test_usual_what_ifs_keep_the_sets_but_for_the_fully_associative_one():
    found = usual_what_ifs(rd.presets.gpu("gtx470-48k"))
    l1 = [one.l1 for one in found.values()]
    assert [(one.size >> 10, one.ways, one.sets) for one in l1] == [
        (24, 3, 64),
        (96, 12, 64),
        (192, 24, 64),
        (48, 384, 1),
    ]
    odd = usual_what_ifs(make_gpu(size=128 * 3, ways=3))
    assert list(odd) == ["L1 of 768 B, 6 ways", "L1 of 1,536 B, 12 ways"]


def test_what_ifs_can_be_any_machines():
    wanted = {"more of all": GPU.replace(sms=2, l1=dataclasses.replace(GPU.l1, size=65536, ways=16))}
    [one] = rd.report(kernel(), GPU, what_ifs=wanted, ablation=False).kernels
    assert list(one.what_ifs) == ["more of all"]
    assert one.what_ifs["more of all"] == rd.predict(kernel(), wanted["more of all"], histogram=False)
    assert one.prediction.ablation == ()


def test_the_summary_is_of_the_modelled_blocks_or_of_all():
    trace = kernel()
    some, every = (rd.report(trace, GPU, what_ifs={}, all_blocks=flag).kernels[0].summary for flag in (False, True))
    assert (some.blocks_held, every.blocks_held) == (2, 8)
    assert some.instructions["load"] * 4 == every.instructions["load"]


def test_a_trace_that_holds_some_blocks_only_is_summarised_where_it_is_modelled(tmp_path):
    rd.save(kernel().cut([0, 4, 5]), tmp_path / "part")
    [one] = rd.report(rd.load(tmp_path / "part"), GPU, what_ifs={}).kernels
    assert one.summary.blocks_held == 2
    [whole] = rd.report(kernel(), GPU, what_ifs={}).kernels
    found, wanted = (timeless(each.prediction.to_dict()) for each in (one, whole))
    assert found["config"].pop("trace")["params"] == {}
    assert wanted["config"].pop("trace")["params"] != {}
    assert found == wanted


def test_progress_goes_up_to_the_end():
    seen: list[float] = []
    rd.report(kernel(), GPU, simulate=True, progress=lambda done, total: seen.append(done / total))
    assert seen == sorted(seen)
    # The prediction, four what-ifs, the reuse distances and the simulation, which is the last.
    assert seen[-1] > 6 / 7


def test_several_seeds_are_a_mean_with_an_interval():
    told = {"seeds": 3, "what_ifs": {}, "ablation": False}
    found = rd.report(kernel(), GPU, **told)
    assert found.kernels[0].prediction == rd.predict(kernel(), GPU, seeds=3, histogram=False)
    assert "95 % interval" in found.to_html()


@pytest.mark.parametrize(
    ("error", "said", "call"),
    [
        (ConfigError, "definitions=", lambda: rd.report(kernel(), definitions=[])),
        (ConfigError, "unknown definition 'papr'", lambda: rd.report(kernel(), definitions=["papr"])),
        (ConfigError, "l2=1: must be True or False", lambda: rd.report(kernel(), l2=1)),
        (ConfigError, "what_ifs=", lambda: rd.report(kernel(), what_ifs=[GPU])),
        (ConfigError, "unknown GPU 'gtx'", lambda: rd.report(kernel(), what_ifs={"x": "gtx"})),
        (ConfigError, "there is nothing to report", lambda: rd.report([])),
        (ConfigError, "unknown option 'sed'", lambda: rd.report(kernel(), sed=1)),
        (
            ConfigError,
            "only the definition 'hardware'",
            lambda: rd.report(kernel(), definitions=["paper"], sched="gto"),
        ),
        (TraceError, "must be a Trace", lambda: rd.report(["atax.1"])),
    ],
)
def test_a_mistake_is_told_by_its_name(error, said, call):
    with pytest.raises(error, match=re.escape(said)):
        call()


def test_an_observer_and_sectors_do_not_go_together():
    with pytest.raises(ConfigError, match="observe cannot be combined with sectors"):
        rd.compare(kernel(), GPU, sectors=True, observe=lambda rows: None)


# ---- the page


def test_the_page_is_sound(page):
    assert page.headings[0] == (1, "Cache behaviour of atax.1 on gtx470-16k")
    levels = [level for level, _ in page.headings]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    # Nothing is fetched; what looks like an address names a vocabulary.
    assert set(re.findall(r"https?://[^\"' )]*", page.text)) == {"http://www.w3.org/2000/svg"}
    assert page.tags.count("caption") == page.tags.count("table") == len(page.every_table)
    named = {value for _, name, value in page.attributes if name == "aria-labelledby"}
    assert {ident for value in named for ident in value.split()} <= set(page.ids)
    for row in (row for _, rows in page.every_table for row in rows):
        assert row[0]
    assert all(len(row) == len(rows[0]) for _, rows in page.every_table for row in rows)


def test_the_same_report_is_the_same_page_and_holds_no_times(full):
    again = rd.report(kernel(), GPU, definitions=["hardware", "paper"], l2=True, simulate=True, seed=3, sched="gto")
    assert again.to_html() == full.to_html()
    one = again.kernels[0]
    late = {name: dataclasses.replace(p, seconds=9.87654, trace_seconds=9.87654) for name, p in one.predictions.items()}
    slow = dataclasses.replace(again, kernels=(dataclasses.replace(one, predictions=late),))
    assert slow.to_html() == full.to_html()


def test_the_tables_of_the_model_have_its_numbers(full, page):
    [one] = full.kernels
    for at, found in zip((1, 3), one.predictions.values(), strict=True):
        column = page.column("Load transactions at the L1", at)
        assert column["all"] == f"{found.transactions:,}"
        assert column["capacity"] == f"{found.misses.capacity:,}"
        assert column["misses"] == f"{found.misses.total:,}"
        assert page.column("Load transactions at the L1", at + 1)["misses"] == f"{100 * found.miss_rate:.2f} %"
        behind = page.column("Requests at the L2 and DRAM traffic", at)
        assert behind["bytes between L2 and DRAM"] == f"{found.l2.dram_bytes:,.0f}"
        rows = page.tables[f"Misses with one component of the model switched off, definition {found.definition}"]
        assert [(r[0], r[1], r[2]) for r in rows[1:]] == [
            (row.component, f"{row.misses:,}", f"{row.difference:+,}") for row in found.ablation
        ]
    changed = page.column("The same kernel on changed GPUs")
    assert list(changed.values())[1:] == [f"{100 * other.miss_rate:.2f} %" for other in one.what_ifs.values()]


def test_the_tables_of_the_simulator_have_its_numbers(full, page):
    one = full.kernels[0]
    run, found = one.comparison.simulation, one.locality
    assert page.column("Time")["cycles"] == f"{run.cycles:,}"
    simulated = page.column("Load transactions, simulated and predicted; errors in points")
    assert simulated["misses"] == f"{100 * run.miss_rate:.2f} %"
    errors = page.column("Load transactions, simulated and predicted; errors in points", 5)
    assert float(errors["misses"]) == pytest.approx(one.comparison.error("paper"), abs=0.0051)
    assert list(page.column("Evictions from the L1s").values()) == [f"{n:,}" for n in run.contention.to_dict().values()]
    reuse = page.column("Load transactions and hits by last access to their line")
    assert list(reuse.values())[1:] == [f"{n:,}" for n in found.unbounded.to_dict().values()]
    assert [row[0] for row in page.tables["Loads by program counter"][1:]] == [str(x.pc) for x in found.loads]


def test_the_machine_has_every_field_with_its_source(page):
    rows = {row[0]: row[1:] for row in page.tables["gtx470-16k"][1:]}
    assert rows["l1.size"] == ["16384", "Nugteren et al., HPCA 2014, section 3.2"]
    assert rows["latency.sigma"][1] == GPU.sources["latency"]
    assert rows["l1.mshr_merge"][0] == "inf"
    plain = GPU.to_dict()
    nested = sum(len(part) for name, part in plain.items() if isinstance(part, dict) and name != "sources")
    assert len(rows) == nested + sum(not isinstance(part, dict) for part in plain.values()) - 1


def test_several_kernels_begin_with_a_row_each():
    found = rd.report([kernel("atax.1"), kernel("bicg.1")], GPU, what_ifs={}, ablation=False)
    page = Page(found.to_html())
    rows = page.tables["L1 miss rates, and misses by cause"][1:]
    rates = [f"{100 * one.prediction.miss_rate:.2f} %" for one in found.kernels]
    assert [(row[0], row[2]) for row in rows] == [("atax.1", rates[0]), ("bicg.1", rates[1])]
    assert [text for level, text in page.headings if level == 2] == [
        "All kernels",
        "atax.1",
        "bicg.1",
        "The GPU",
        "Glossary",
    ]
    assert "Causes and remedies" not in {text for _, text in page.headings}


def test_the_same_kernel_twice_has_links_of_its_own():
    page = Page(rd.report([kernel(), kernel()], GPU, what_ifs={}, ablation=False).to_html())
    assert {"k1", "k2"} <= set(page.ids)


# ---- hostile names


def named(report: rd.Report, name: str) -> rd.Report:
    """Return a report whose kernel and array are called so, as a file may call them."""
    [one] = report.kernels
    arrays = tuple(dataclasses.replace(array, name=name) for array in one.summary.arrays)
    trace = {**one.prediction.config["trace"], "kernel": name, "params": {name: name}}
    first = dataclasses.replace(one.prediction, kernel=name, config={**one.prediction.config, "trace": trace})
    changed = dataclasses.replace(
        one,
        source=name,
        summary=dataclasses.replace(one.summary, kernel=name, arrays=arrays),
        predictions={**one.predictions, "hardware": first},
        what_ifs={name: first},
        commands=dict.fromkeys(("summary", "predictions", "reuse", "what_ifs"), (f"rdmodel predict {name}",)),
    )
    return dataclasses.replace(report, gpu=report.gpu.replace(name=name), kernels=(changed,))


@functools.cache
def slim() -> rd.Report:
    return rd.report(kernel(), GPU, ablation=False)


HOSTILE = (
    "<script>alert(1)</script>",
    "</title><img src=x onerror=alert(1)>",
    '"><svg/onload=alert(1)>',
    "' onclick='alert(1)",
    "</style></pre></svg><!-- ",
    "]]>&lt;&#60;",
    "a\x00b\x1b[31m\u202egpj.exe\ud800",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_a_file_end_up_as_text(full, name):
    text = named(full, name).to_html()
    text.encode("utf-8")
    hostile, plain = Page(text), Page(named(full, "plain").to_html())
    assert hostile.tags == plain.tags
    assert [(tag, at) for tag, at, _ in hostile.attributes] == [(tag, at) for tag, at, _ in plain.attributes]
    assert hostile.figures.keys() == plain.figures.keys()
    assert all(character.isprintable() or character == "\n" for character in text)


@examples(60)
@given(st.text(max_size=40))
def test_any_name_leaves_the_page_sound(name):
    found = Page(named(slim(), name).to_html())
    assert found.tags == Page(named(slim(), "plain").to_html()).tags
    if name.isprintable():
        assert found.column("Launch and memory accesses")["kernel"] == name


def test_a_trace_with_hostile_names_can_be_reported():
    trace = kernel()
    array = ArrayInfo(HOSTILE[0], 0x10000000, 4096)
    trace.launch = dataclasses.replace(trace.launch, kernel=HOSTILE[0], arrays=(array,))
    found = Page(rd.report(trace, GPU, simulate=True).to_html())
    assert "script" not in found.tags
    assert found.tables["Arrays"][1][0] == HOSTILE[0]
    assert found.tables["Launch and memory accesses"][1][1] == HOSTILE[0]


# ---- figures


def test_bars_are_as_long_as_their_shares(full, page):
    one = full.kernels[0].predictions["hardware"]
    counts = [one.hits, one.latency_misses, one.misses.compulsory, one.misses.capacity, one.misses.associativity]
    chart = page.text[page.text.index("Load transactions by outcome, definition hardware: hits ") :]
    shares = [float(share) for share in re.findall(r"--share: ([\d.]+)", chart)[: len(counts)]]
    assert shares == pytest.approx([n / one.transactions for n in counts], abs=0.00006)


def height_of(y: float) -> float:
    """Return the share, 0 to 1, of a height in a plane that goes up to 1."""
    return (figures.HEIGHT - figures.BOTTOM - y) / (figures.HEIGHT - figures.TOP - figures.BOTTOM)


def test_the_curve_has_the_miss_ratios_and_the_marks_the_predicted_rates(full, page):
    [one] = full.kernels
    drawn = page.figures["Miss-ratio curve"]
    path = next(p.get("d") for p in drawn.findall(f"{SVG}path") if p.get("class") == "curve")
    points = [tuple(map(float, pair.split())) for pair in re.findall(r"[ML]([\d.]+ [\d.]+)", path)]
    lines = [ln for ln in drawn.findall(f"{SVG}line") if (ln.get("class") or "").startswith("cache")]
    for line, size in zip(lines, (GPU.l1.lines, 5 * 1024), strict=True):
        x = float(line.get("x1"))
        at = [height_of(py) for px, py in points if px == x][-1]
        assert at == pytest.approx(one.histogram.miss_ratio(size), abs=0.001)
    circle = drawn.find(f"{SVG}circle")
    assert float(circle.get("cx")) == float(lines[0].get("x1"))
    assert height_of(float(circle.get("cy"))) == pytest.approx(one.prediction.miss_rate, abs=0.001)
    assert all(0 <= x <= figures.FIGURE_WIDTH for x, _ in points)
    assert points == sorted(points, key=lambda point: (point[0], point[1]))


def test_the_histogram_has_all_transactions(full, page):
    [one] = full.kernels
    rects = page.figures["Reuse distances"].findall(f"{SVG}rect")
    heights = [float(rect.get("height")) for rect in rects]
    first = next(float(rect.get("height")) for rect in rects if rect.get("class") == "first")
    assert first / sum(heights) == pytest.approx(one.histogram.infinite / one.histogram.total, abs=0.002)


@pytest.mark.parametrize("lines", [[0], [0, 0], list(range(9)), [0, 1] * 9])
def test_a_few_transactions_can_be_drawn(lines):
    trace = make_trace([[[(Op.LOAD, ALL_NEEDS, 0, [line]) for line in lines]]], 1)
    found = Page(rd.report(trace, make_gpu(), l2=True, simulate=True).to_html())
    rows = found.tables["Reuse distances"][1:]
    assert sum(int(row[1].replace(",", "")) for row in rows) == len(lines)
    for drawn in found.figures.values():
        places = [float(part.get("x", "0")) for part in drawn.iter()]
        assert all(0 <= x <= figures.FIGURE_WIDTH for x in places)


# ---- findings


def sentences(one: rd.KernelReport, gpu: rd.GPU) -> str:
    return "\n".join(sentence for told in findings(one, gpu).values() for sentence in told)


def test_findings_begin_with_causes_remedies_and_bounds(full):
    [one] = full.kernels
    subjects = [
        "Modelled", "Where the misses come from", "What would help", "What bounds the kernel", "In the simulation"
    ]  # fmt: skip
    assert list(findings(one, full.gpu)) == subjects
    assert list(findings(dataclasses.replace(one, comparison=None, locality=None), full.gpu)) == subjects[:-1]


def test_findings_say_how_much_of_the_grid_was_modelled(full):
    assert findings(full.kernels[0], full.gpu)["Modelled"][0].startswith("8 of 8 blocks (all), on 4 of 4 SMs.")
    [one] = rd.report(kernel(), GPU, ablation=False, what_ifs={}).kernels
    assert findings(one, GPU)["Modelled"][0].startswith("2 of 8 blocks (25.00 % of the grid), on 1 of 4 SMs.")


def test_findings_name_the_lines_and_arrays_with_most_misses(full):
    [one] = full.kernels
    rows = one.origins.by("array").rows
    whole = sum(row.counts.missed_sectors for row in rows)
    named = f"The arrays with most misses: {rows[0].name} ({100 * rows[0].counts.missed_sectors / whole:.2f} %)"
    assert named in sentences(one, full.gpu)


def test_the_time_is_that_of_a_single_call_and_is_missing_without_rates(full, page):
    [one] = full.kernels
    timed = rd.time(kernel(), GPU, seed=3)
    assert one.timed == timed
    assert f"takes about {timed.milliseconds:,.4g} ms" in sentences(one, full.gpu)
    assert next(iter(page.column("Terms of the time", 1))) == timed.bound
    unknown = rd.report(kernel(), make_gpu(), ablation=False, what_ifs={})
    assert unknown.kernels[0].timed is None
    assert "Terms of the time" not in unknown.to_html()


def test_findings_follow_from_the_numbers(full):
    [one] = full.kernels
    told = sentences(one, full.gpu)
    first = one.prediction
    most = max(("compulsory", "capacity", "associativity"), key=lambda name: getattr(first.misses, name))
    assert f"{100 * first.miss_rate:.2f} % of the load transactions leave the SM" in told
    assert f"are {most} misses" in told
    assert f"{one.comparison.simulation.cycles:,} cycles" in told
    assert f"{one.summary.transactions_per_load:.2f} transactions on average" in told


def test_findings_say_where_nothing_helps_or_nothing_misses(full):
    [one] = full.kernels
    none = dataclasses.replace(one.prediction, misses=rd.MissCounts(0, 0, 0))
    told = sentences(dataclasses.replace(one, predictions={"hardware": none}), full.gpu)
    assert "No load request leaves the SM" in told
    assert "None of the changed GPUs misses less." in told
    quiet = tuple(dataclasses.replace(row, difference=0) for row in one.prediction.ablation)
    first = dataclasses.replace(one.prediction, ablation=quiet)
    told = sentences(dataclasses.replace(one, predictions={"hardware": first}), full.gpu)
    assert "No single component" in told


def test_the_style_and_the_page_fit_on_little(page):
    assert len(page.text.encode()) < 100_000
    assert Path(figures.__file__).with_name("style.css").read_text() in page.text


# ---- sectors


def test_a_page_about_a_gpu_with_sectors_counts_sectors_and_draws_lines():
    report = rd.report(kernel(), "v100", ablation=False)
    found = report.kernels[0].prediction
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", report.to_html()))
    assert f"{100 * found.miss_rate:.2f} % of the load sectors leave the SM." in text
    assert "per 32-byte sector; it leaves out requests to sectors already in flight" in text
    assert "miss ratio, by line, of" in text
    assert "marks the share of transactions whose line is absent, predicted by hardware" in text
    assert "load transactions leave the SM" not in text
    share = 100 * found.tag_misses / found.transactions
    assert f"transactions {found.transactions:,} 100.00 % line absent {found.tag_misses:,} {share:.2f} %" in text


def test_a_page_shows_the_l1_that_the_shared_memory_of_the_launch_leaves():
    report = rd.report(kernel(), "a100", simulate=True, what_ifs={})
    [one] = report.kernels
    launched = one.launched_on(report.gpu)
    size = one.prediction.config["gpu"]["l1"]["size"]
    assert (launched.l1.size, launched.l1.sets) == (size, report.gpu.l1.sets)
    page = Page(report.to_html())
    assert page.column("Launch and memory accesses")["L1"] == "160 KB: 192 KB per SM, of which shared memory has 32 KB"
    told = " ".join(chain.from_iterable(findings(one, launched).values()))
    rate = f"{100 * one.comparison.simulation.miss_rate:.2f} %"
    assert f"{rate} of the load sectors miss in the L1s" in told
    assert "first requests to a sector" in told
    assert one.launched_on(rd.presets.gpu("a100")) == launched
    [old] = rd.report(kernel(), GPU, what_ifs={}).kernels
    assert old.launched_on(GPU) == GPU


def test_loads_past_the_l1_are_counted_where_there_are_any():
    # A GPU of generation Maxwell looks for lines of read-only data only in its L1.
    report = rd.report(kernel(), "titan-x-maxwell", ablation=False)
    found = report.kernels[0].prediction
    assert found.bypassed_transactions > 0
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", report.to_html()))
    assert f"loads past the L1 {found.bypassed_transactions:,} sectors {found.bypassed_sectors:,} " in text
    assert "loads past the L1" not in rd.report(kernel(), "v100", ablation=False).to_html()
