"""Order the rooms by floor: a room imports rooms on lower floors only."""

FLOORS = {
    0: "errors structures version",
    1: "common plugins _tree",
    2: "answers policies reuse trace",
    3: "execution gpu",
    4: "presets results",
    5: "model simulator",
    6: "comparison contests estimation locality_analysis reference",
    7: "timing",
    8: "reports sweeps testing tiling",
    9: "__init__ tracegen",
    10: "integrations plots service",
    11: "cli",
    12: "__main__",
}
"""Rooms of rdmodel by floor; all of tracegen is one room here, and has floors of its own."""

TRACEGEN_FLOORS = {
    0: "_addresses cuda.headers limits matrix_market parameter_names ptx.syntax unrolling",
    1: "arrays cuda.sources formats.ordering generated ptx",
    2: "formats ptx.isa simt",
    3: "affine patterns ptx.lowering ptx.registers",
    4: "ptx.timing",
    5: "ptx.emulator",
    6: "cuda kernel_library",
    7: "recording",
    8: "__init__ recording.stub",
}
"""Rooms of tracegen by floor."""
