"""Named GPUs as data: one TOML file each, every number with its source."""
