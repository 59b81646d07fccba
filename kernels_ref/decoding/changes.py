"""What a rule decided about one block, counted, written and put on record at once."""

from kernels_ref.decoding.query import BoolArray, Prediction
from kernels_ref.decoding.record import Update
from kernels_ref.decoding.sequence import Sequence
from kernels_ref.decoding.updates import count, write


def change(  # noqa: PLR0913 (what is counted)
    sequence: Sequence,
    block: int,
    said: Prediction,
    *,
    ready: BoolArray,
    revealed: BoolArray,
    edited: BoolArray,
) -> Update:
    """The update that writes what is *said* to the *revealed* and the *edited* places."""
    update = count(sequence, block, said, ready=ready, revealed=revealed, edited=edited)
    write(sequence, block, said, revealed | edited)
    sequence.record.update(block, update)
    return update
