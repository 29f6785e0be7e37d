"""Tell the registers that a thread of a PTX kernel takes: from an assembler, or estimated from the live values."""
