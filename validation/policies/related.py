"""Check claims of the abstracts of seven papers that the others compare with or build on; one function per claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from validation.common.claims import Claim, values
from validation.policies.claims import HELPS, Counters, harmonic, mean
from validation.policies.measure import NONE, group

RELATED = "OWL, DYNCTA, lazy CTA scheduling, DAWS, CCA, G-Cache and CBWT"
OWL, DYNCTA = "Jog et al., ASPLOS 2013", "Kayiran et al., PACT 2013"
LAZY, DAWS = "Lee et al., HPCA 2014", "Rogers et al., MICRO 2013"
CCA, GCACHE, CBWT = "Zheng et al., IEEE CAL 2015", "Chen et al., MES 2014", "Chen et al., MICRO 2014"

MACHINE, ROUND_ROBIN = "khairy-part", "khairy-part-lrr"
SENSITIVE = ("koo_sensitive", "both")
PRODUCTS = "products"
STENCILS = "koo_insensitive"
PAIRS = "lazy-cta:lcs=false,baws=true"


def faster(counters: Counters, policies: str, over: str = NONE, machine: str = MACHINE) -> dict[str, float]:
    """Return the speedups of the cache-sensitive kernels under policies over other policies, by kernel."""
    return {
        kernel: times
        for of in SENSITIVE
        for kernel, times in zip(group(of), counters.faster(machine, of, policies, over), strict=True)
    }


def hit_shares(
    counters: Counters, policies: str, machine: str = MACHINE, of: Sequence[str] = SENSITIVE
) -> dict[str, float]:
    """Return the shares of all loads of some groups that cause no read beyond the L1, by kernel."""
    return {
        kernel: 1 - (one.misses + one.bypassed) / (one.loads + one.bypassed)
        for name in of
        for kernel, one in zip(group(name), counters.of(machine, name, policies), strict=True)
    }


def speedup(
    counters: Counters, paper: str, policies: str, says: str, *, over: str = NONE, machine: str = MACHINE
) -> Claim:
    """Compare speeds by the harmonic mean over the cache-sensitive kernels."""
    found = faster(counters, policies, over, machine)
    average = harmonic(list(found.values()))
    return Claim(
        f"{paper}, abstract",
        f"{says}: here, more than {HELPS}",
        f"harmonic mean {average:.2f}: {values(found, found.values())}",
        average > HELPS,
    )


def contention(counters: Counters) -> Claim:
    """OWL: the first two schemes."""
    shares = [hit_shares(counters, name, ROUND_ROBIN) for name in (NONE, "owl")]
    before, after = (fmean(one.values()) for one in shares)
    return Claim(
        f"{OWL}, abstract",
        "scheduling by groups of blocks, with locality, reduces contention in the L1: here, more loads hit on average",
        f"{100 * before:.1f} % of the loads hit under round robin, {100 * after:.1f} % under OWL; by kernel: "
        + "; ".join(values(one, [100 * share for share in one.values()], ".1f") for one in shares),
        after > before,
    )


def banks(counters: Counters) -> Claim:
    """OWL: the third scheme."""
    found = faster(counters, "owl", "owl:blp=false", ROUND_ROBIN)
    average = harmonic(list(found.values()))
    return Claim(
        f"{OWL}, abstract",
        "other priorities on neighbouring SMs improve performance further, by parallel banks of the DRAM: more than 1",
        f"harmonic mean {average:.3f} over OWL without them: {values(found, found.values(), '.3f')}",
        average > 1,
    )


def enough_blocks(counters: Counters) -> Claim:
    """Lazy CTA scheduling: fewer blocks than fit."""
    found = faster(counters, "lazy-cta:group=1")
    return Claim(
        LAZY,
        "an SM needs only the blocks that LCS counts: here, fewer blocks make no cache-sensitive kernel more than 5 % "
        "slower",
        f"harmonic mean {harmonic(list(found.values())):.3f}: {values(found, found.values(), '.3f')}",
        min(found.values()) >= 0.95,
    )


def pairs(counters: Counters) -> Claim:
    """Block CTA scheduling: pairs on one SM."""
    before, after = (hit_shares(counters, name, of=(STENCILS,)) for name in (NONE, PAIRS))
    return Claim(
        LAZY,
        "pairs of consecutive blocks on one SM, with a scheduler that keeps them together, share lines: here, more "
        "loads of each stencil hit than without pairs",
        "percent of the loads without and with pairs: "
        + "; ".join(values(one, [100 * share for share in one.values()], ".1f") for one in (before, after)),
        all(after[kernel] > share for kernel, share in before.items()),
    )


def simple_code(counters: Counters) -> Claim:
    """DAWS: the case study."""
    simple = counters.get(MACHINE, PRODUCTS, "spmv", "daws").cycles
    before = counters.get(MACHINE, PRODUCTS, "spmv").cycles
    tuned = counters.get(MACHINE, PRODUCTS, "spmv.warp").cycles
    return Claim(
        f"{DAWS}, abstract",
        "with DAWS, a simple product of a sparse matrix and a vector, with a row per thread, is within 4 % of one that "
        "has been optimized (here: with a row per warp)",
        f"the simple one takes {simple / tuned:.2f} times as long, {before / tuned:.2f} times without DAWS",
        simple <= 1.04 * tuned,
    )


def over_limit(counters: Counters) -> Claim:
    """CBWT: against the best limit."""
    found = faster(counters, "cbwt", "swl:best")
    return Claim(
        f"{CBWT}, abstract",
        "CBWT is 1.17 times as fast (harmonic mean), and at most 1.44 times, as the best static limit on warps: more "
        "than 1",
        f"harmonic mean {harmonic(list(found.values())):.2f}: {values(found, found.values())}",
        harmonic(list(found.values())) > 1,
    )


def efficiency(counters: Counters, paper: str, policies: str) -> Claim:
    """Compare how many loads hit."""
    before, after = (fmean(hit_shares(counters, name).values()) for name in (NONE, policies))
    title = {"cbwt": "CBWT", "g-cache": "the G-Cache"}[policies]
    return Claim(
        f"{paper}, abstract",
        f"{title} improves the efficiency of the cache: here, more loads hit on average",
        f"{100 * before:.1f} % of the loads hit without, {100 * after:.1f} % with it",
        after > before,
    )


def balance(counters: Counters) -> Claim:
    """CCA: throttling and bypassing together."""
    found = {name: mean(list(faster(counters, name).values())) for name in ("cca", "swl:best", "bypass-all")}
    return Claim(
        f"{CCA}, abstract",
        "a third group of warps, which bypass the L1, uses bandwidth that throttling leaves idle: here, CCA is faster "
        "than the best static limit on warps, and than bypassing alone",
        f"geometric means {values(found, found.values())}",
        found["cca"] > max(found["swl:best"], found["bypass-all"]),
    )


CLAIMS: dict[str, Callable[[Counters], Claim]] = {
    "OWL": lambda counters: speedup(
        counters, OWL, "owl", "OWL is 1.33 times as fast as round robin on average", machine=ROUND_ROBIN
    ),
    "OWL, contention": contention,
    "OWL, banks": banks,
    "DYNCTA": lambda counters: speedup(
        counters, DYNCTA, "dyncta", "DYNCTA is 1.28 times as fast on average as all blocks that fit"
    ),
    "LCS, enough blocks": enough_blocks,
    "BCS, pairs": pairs,
    "DAWS and CCWS": lambda counters: speedup(
        counters, DAWS, "daws", "DAWS is 1.26 times as fast (harmonic mean) as CCWS on cache-sensitive kernels",
        over="ccws",
    ),
    "DAWS, simple code": simple_code,
    "CCA": lambda counters: speedup(counters, CCA, "cca", "CCA is 1.80 times as fast (harmonic mean) as the baseline"),
    "CCA, three groups": balance,
    "G-Cache": lambda counters: speedup(
        counters, GCACHE, "g-cache", "the G-Cache is 1.31 times as fast on average on cache-sensitive kernels"
    ),
    "G-Cache, efficiency": lambda counters: efficiency(counters, GCACHE, "g-cache"),
    "CBWT": lambda counters: speedup(
        counters, CBWT, "cbwt", "CBWT is 1.74 times as fast (harmonic mean), and up to 7.61 times, as the baseline"
    ),
    "CBWT and SWL": over_limit,
    "CBWT, efficiency": lambda counters: efficiency(counters, CBWT, "cbwt"),
}  # fmt: skip
"""The function of each claim by the name of the claim."""
