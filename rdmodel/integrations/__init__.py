"""Convert rankings of tiles to the forms of other tools, and trace their kernels, with one module for each tool.

Importing a module does not import its tool, which is needed only to compile kernels.
"""
