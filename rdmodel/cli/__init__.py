"""Provide the command line: parse options, call the library, print results.

No package below this one reads kernel names or texts such as ``48K`` from a user: they become values here. `arguments`
declares the commands and their options, `option_values` turns parsed options into values, ``COMMAND_command`` modules
run the commands, and ``text_*`` modules format results as text.
"""

from rdmodel.cli.main import main

__all__ = ["main"]
