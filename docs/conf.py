"""Sphinx configuration: Markdown by MyST, reference by autodoc; nothing is downloaded at build time."""

import re

from rdmodel import __version__

project = "rdmodel"
copyright = "the rdmodel authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
napoleon_google_docstring = False
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

# Docstrings write `name` for code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}

html_theme = "furo"
html_title = f"rdmodel {__version__}"


def escape_bars(app, what, name, obj, options, lines):
    """Let |x| in a docstring be an absolute value, not a substitution."""
    lines[:] = [re.sub(r"(``.*?``)|\|", lambda found: found[1] or r"\|", line) for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars)
