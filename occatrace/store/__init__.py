"""The tables of a run: built once from the trace, opened at once later."""
