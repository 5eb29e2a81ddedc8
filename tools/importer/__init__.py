"""Vendors' headers → models: what the headers say (clang.py) joined with what calls mean (a module per API)."""
