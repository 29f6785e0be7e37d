"""Draw what became of the requests of loads at the L1s, as both engines count them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rdmodel.common.axes import draw_shares, given_or_new, literal, nothing_to_draw
from rdmodel.results.counts import MissCounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Outcomes(Protocol):
    """A result that counts the sectors of loads, those that hit, and those that miss by cause."""

    @property
    def sectors(self) -> float:
        """Sectors that loads ask for."""

    @property
    def hits(self) -> float:
        """Sectors that are in the L1."""

    @property
    def misses(self) -> MissCounts:
        """Sectors that leave the SM."""


def draw_outcomes(ax: Axes | None, result: Outcomes, waiting: tuple[str, float], unit: str, title: str) -> Axes:
    """Draw hits, sectors in flight (`waiting`: their name and number) and misses by cause, in percent of the sectors.

    Returns the axes, new ones for None. Raises `ConfigError` without sectors.
    """
    if not result.sectors:
        raise nothing_to_draw(result, "no loads look into the L1")
    ax, (name, number) = given_or_new(ax), waiting
    outcomes = {"hits": result.hits, name: number}
    outcomes |= {f"{cause} misses": getattr(result.misses, cause) for cause in MissCounts.CAUSES}
    shares = [100 * outcome / result.sectors for outcome in outcomes.values()]
    draw_shares(ax, list(outcomes), shares, f"% of the {unit} of loads")
    ax.set_title(literal(title))
    return ax
