"""Draw results with matplotlib (extra ``plot``)."""

from rdmodel.plots.charts import scatter
from rdmodel.plots.contest_figure import contest_figure
from rdmodel.plots.heatmap import heat_map
from rdmodel.plots.save_figure import save_figure

__all__ = ["contest_figure", "heat_map", "save_figure", "scatter"]
