"""Read and write trace files: the native format and those of other tools, recognised by content, then by extension.

Every reader also takes compressed files (gzip, xz, zstd).
"""

from rdmodel.common.lazy_names import lazy_names

_HOMES = {
    "tracegen.formats.launch_entries": ("LaunchEntry",),
    "tracegen.formats.names": ("STDIN_NAME",),
    "tracegen.formats.recorded_trace": ("Reading", "RecordedTrace", "Skipped"),
    "tracegen.formats.registry": (
        "FORMATS",
        "Format",
        "by_extension",
        "extension_of",
        "launches",
        "read",
        "recognise",
        "write",
    ),
}
"""The names of this package by the modules that define them, which are imported on first use."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
