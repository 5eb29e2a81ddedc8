"""From the model (YAML) to files in memory: parse → immutable model → files."""
