"""Log-linear histograms of durations: 64 buckets per octave, exact below 128, middle within 0.8 % above.

The same numbering as in native/emit/histogram.h and in the SQL macro `bucket` of store/_macros.sql.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from occatrace.core.bounds import SUB, SUB_BITS

BUCKETS = 1 << 12  # the highest index of a 64-bit value is 3775


def bucket(values: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Bucket index of each non-negative value."""
    # The exponent and the first mantissa bits of the double are the octave and the bucket within it.
    bits = values.astype(np.float64).view(np.int64)
    index = (bits >> (52 - SUB_BITS)) - (1023 + SUB_BITS - 1) * SUB
    return np.where(values < SUB, values.astype(np.int64), index)


def middle(index: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Value in the middle of each bucket."""
    index = index.astype(np.int64)
    shift = np.maximum(index // SUB - 1, 0)
    low = np.where(index < SUB, index, (SUB + index % SUB)).astype(np.float64) * np.exp2(shift)
    result: npt.NDArray[np.float64] = low + (np.exp2(shift) - 1) / 2
    return result
