"""Draw results with matplotlib (extra ``plot``)."""

from rdmodel.plots.charts import bars, scatter
from rdmodel.plots.heatmap import heat_map

__all__ = ["bars", "heat_map", "scatter"]
