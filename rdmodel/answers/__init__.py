"""Cache results on disk, in a SQLite file that several processes may share."""
