"""Write the section of a page with the estimated time of a kernel on a real GPU."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from rdmodel.reports.bars import draw_bars
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.markup import Node, element, html_table, paragraph
from rdmodel.reports.model_sections import section
from rdmodel.timing.values import SHOWN_SHARE, TimeEstimate

TERMS_NOTE = (
    "A bar shows how long the launch would take if it were bound by this resource alone, as a share of the estimated "
    "time. The latency is the time that warps wait although no resource is busy."
)
"""Explanation of the terms."""


def time_section(kernel: KernelReport, timed: TimeEstimate, ident: str) -> Element:
    """Return the time of the whole launch, and its terms."""
    shown = {name: share for name, share in timed.shares.items() if share >= SHOWN_SHARE}
    rows = [
        (name, f"{100 * share:.0f} %", f"{share * timed.milliseconds:,.4g}", f"{timed.terms[name]:,.0f}")
        for name, share in shown.items()
    ]
    parts: list[Node] = [
        paragraph(
            f"The whole launch takes about {timed.milliseconds:,.4g} ms ({timed.cycles:,.0f} cycles at {timed.clock} "
            f"MHz), with {timed.resident_warps} of {timed.max_warps} warps on an SM. It fills all SMs {timed.waves:,} "
            f"times; {100 * timed.tail_share:.0f} % of the time come after the last full wave."
        )
    ]
    if rows:
        figure = draw_bars("Terms of the time", list(shown.items()))
        parts.append(element("figure", figure, element("figcaption", TERMS_NOTE)))
        parts.append(html_table("Terms of the time", ("term", "share", "ms", "cycles"), rows))
    if not timed.work.has_arithmetic:
        parts.append(paragraph("The trace does not tell arithmetic: only its accesses are timed."))
    return section(ident, "Time", *parts, commands=kernel.commands.get("time", ()))
