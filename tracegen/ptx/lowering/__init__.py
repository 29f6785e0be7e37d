"""Lower PTX instructions to the numbered steps that the emulator executes."""
