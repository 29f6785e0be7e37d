"""Sphinx configuration: Markdown by MyST, reference by autodoc; nothing is downloaded at build time."""

from rdmodel.version import VERSION

project = "rdmodel"
copyright = "the rdmodel authors"
version = release = VERSION

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

# Docstrings write `name` for code, and their parameters are described in prose.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": False}

html_theme = "furo"
html_title = f"rdmodel {VERSION}"
