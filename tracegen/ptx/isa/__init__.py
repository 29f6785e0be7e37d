"""Number the operations, types and special registers that the lowering and the emulator share."""
