"""Python that runs inside the traced program. Imports nothing of the analysis."""
