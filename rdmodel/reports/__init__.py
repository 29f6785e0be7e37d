"""Report on the cache behaviour of kernels as one self-contained HTML page.

`build` runs the model and the simulator, `kernel_report` and `report` hold the results, and `page` turns them into HTML
with the help of `findings`, `model_sections`, `simulation_sections` and `figures`. `drawing` and `markup` write the SVG
and HTML.
"""
