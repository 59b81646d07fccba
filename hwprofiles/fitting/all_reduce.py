"""Tabulates the all-reduce by number of GPUs and message size."""

from itertools import chain

import numpy as np
import pandas as pd

from hwprofiles.curves.all_reduce import AllReduceCurve, MessageTable
from hwprofiles.fitting.judging import column, residual, span
from hwprofiles.fitting.search import significant
from hwprofiles.provenance import Source
from hwprofiles.quantities import FloatArray


def message_table(sizes: FloatArray, seconds: FloatArray) -> MessageTable:
    """The table of rising *sizes*, freed of disturbed points.

    A disturbance only ever adds time, so a time above that of a larger message gives way to it.
    """
    undisturbed = np.minimum.accumulate(seconds[::-1])[::-1]
    return MessageTable(
        message_bytes=[significant(size) for size in sizes],
        seconds=[significant(time) for time in undisturbed],
    )


def left_out_s(sizes: FloatArray, seconds: FloatArray) -> FloatArray:
    """Each inner time as the table made of all other sizes has it."""
    inner = range(1, len(sizes) - 1)
    return np.array(
        [
            message_table(np.delete(sizes, i), np.delete(seconds, i)).lookup(sizes[i : i + 1])[0]
            for i in inner
        ]
    )


def tabulate(measured: pd.DataFrame, source: Source) -> AllReduceCurve:
    """The curve of *measured* ranks, message_bytes and seconds.

    Its residual leaves out one size at a time.
    """
    by_ranks = {
        ranks: (column(rows, "message_bytes"), column(rows, "seconds"))
        for ranks in sorted(int(count) for count in measured["ranks"].unique())
        for rows in [measured[measured["ranks"] == ranks].sort_values("message_bytes")]
    }
    judged = {ranks: (left_out_s(*pair), pair[1][1:-1]) for ranks, pair in by_ranks.items()}
    return AllReduceCurve(
        form="all-reduce",
        by_ranks={ranks: message_table(*pair) for ranks, pair in by_ranks.items()},
        residual=residual(
            list(chain.from_iterable(guess for guess, _ in judged.values())),
            list(chain.from_iterable(truth for _, truth in judged.values())),
        ),
        residual_by_ranks={ranks: residual(*pair) for ranks, pair in judged.items()},
        domain={
            "message_bytes": span(measured["message_bytes"]),
            "ranks": span(measured["ranks"]),
        },
        source=source,
    )
