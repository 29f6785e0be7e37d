"""Sphinx configuration: Markdown by MyST, reference by autodoc; nothing is downloaded at build time."""

import re

from docutils import nodes
from latex2mathml.converter import convert

from rdmodel import __version__

project = "rdmodel"
copyright = "the rdmodel authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
napoleon_google_docstring = False
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

# Docstrings write `name` for code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}

# Formulas are MathML, which browsers draw without a script and without a network.
html_math_renderer = "mathml"

# Sessions are copied as what was typed.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_title = f"rdmodel {__version__}"


def escape_bars(app, what, name, obj, options, lines):
    """Let |x| in a docstring be an absolute value, not a substitution."""
    lines[:] = [re.sub(r"(``.*?``)|\|", lambda found: found[1] or r"\|", line) for line in lines]


def visit_formula(display):
    """Return the function that writes a formula within a line ("inline"), or on a line of its own ("block")."""

    def visit(translator, node):
        translator.body.append(convert(" ".join(node.astext().split()), display=display))
        raise nodes.SkipNode

    return visit


def setup(app):
    app.add_html_math_renderer(
        "mathml", inline_renderers=(visit_formula("inline"), None), block_renderers=(visit_formula("block"), None)
    )
    app.connect("autodoc-process-docstring", escape_bars)
