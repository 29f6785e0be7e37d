"""Name the extensions of trace files, and the word for standard input, without loading the readers."""

STDIN_NAME = "-"
"""Name of standard input in place of a file's; a file with this name is ``./-``."""

COMPRESSED_EXTENSIONS = (".gz", ".xz", ".zst")
"""Extensions of compressed files. Only names are made from them: the content is recognised by its first bytes."""

KERNELS_LIST_SUFFIX = ".g"
"""Extension of a list of the launches of an Accel-Sim trace."""

EXTENSIONS = {
    "trc": ".trc",
    "accelsim": ".traceg",
    "kernelslist": KERNELS_LIST_SUFFIX,
    "nvbit": ".memtrace",
    "ppt": ".mem",
    "parquet": ".parquet",
}
"""Extensions of the files of a format, by its name; other formats have none of their own."""
