"""`python -m occatrace.reports`: the page docs/reports.md."""

from occatrace.reports import markdown

print(markdown(), end="")
