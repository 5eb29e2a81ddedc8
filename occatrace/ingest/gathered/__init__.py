"""The gathered tables, one module each; to add one, add a module and name it here, after those whose tables it reads."""

from occatrace.ingest.gathered import (
    activities,
    allocations,
    builds,
    communicators,
    copy_sides,
    counters,
    kernel_runs,
    messages,
    occa_copies,
    omp_regions,
    omp_targets,
    omp_threads,
    papi,
    pools,
    python,
    ranges,
)
from occatrace.ingest.gathered.gathered import Gathered

GATHERED: tuple[Gathered, ...] = (
    kernel_runs.GATHERED,
    occa_copies.GATHERED,
    activities.GATHERED,
    allocations.GATHERED,
    copy_sides.GATHERED,
    builds.GATHERED,
    ranges.GATHERED,
    counters.GATHERED,
    papi.GATHERED,
    omp_regions.GATHERED,
    omp_threads.GATHERED,
    omp_targets.GATHERED,
    communicators.RANKS,
    communicators.COMMUNICATORS,
    messages.GATHERED,
    python.CALLS,
    python.FRAMES,
    python.LINES,
    python.SAMPLES,
    python.MESSAGES,
    pools.POOLS,
    pools.BLOCKS,
    pools.ENDS,
    pools.SIZES,
    pools.BUILDS,
    pools.USES,
)

__all__ = ["GATHERED", "Gathered"]
