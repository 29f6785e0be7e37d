"""Draw results with matplotlib (extra ``plot``)."""

from rdmodel.plots.charts import bars, scatter
from rdmodel.plots.heatmap import heat_map
from rdmodel.plots.save_figure import save_figure

__all__ = ["bars", "heat_map", "save_figure", "scatter"]
