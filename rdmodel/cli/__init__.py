"""The command line: parse, call, print. The only place that knows names, ``48K``, files and `tracegen`."""

from rdmodel.cli.main import main

__all__ = ["main"]
