"""Facts without I/O on runs: units, names, SQL quoting, the model of what is traced, the schema of the tables."""
