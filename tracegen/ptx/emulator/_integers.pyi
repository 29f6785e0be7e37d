# Only other compiled modules call what is in here.
