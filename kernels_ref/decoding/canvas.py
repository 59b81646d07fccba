"""Canvas: a block that begins as uniform noise, on its way to text."""

import numpy as np
import torch

from kernels_ref.decoding.query import BoolArray, FloatArray, IntArray, Prediction, Query
from kernels_ref.decoding.record import Update
from kernels_ref.decoding.sequence import Sequence
from kernels_ref.decoding.uniform_noise import uniform_noise


class Canvas:
    """Tokens of a block that is not finished; those of the sequence stay masks until it is.

    All it draws follows from the sequence's seed and request and from the block.
    """

    def __init__(self, sequence: Sequence, block: int) -> None:
        """Begin with noise alone, which the mask token is no part of."""
        self._sequence, self._block = sequence, block
        self._draws = np.random.default_rng((sequence.seed, sequence.request, block))
        self.tokens = self._noise()
        self.accepted: BoolArray = np.zeros(sequence.block_tokens, dtype=np.bool_)
        """Places that hold a sampled token; the others hold noise."""

    def query(self) -> Query:
        """The whole canvas, which sees all of itself and what is before it."""
        places = self._sequence.places(self._block)
        horizon = np.full(len(self.tokens), places.stop)
        return Query("denoise", places.start, self.tokens.copy(), horizon, len(self.tokens))

    def renoise(self, said: Prediction, logits: torch.Tensor, accepted: BoolArray) -> None:
        """Sampled tokens at *accepted* places, new noise at all others; *logits* are cooled.

        In the record: noise before is masked, of it what is accepted is ready and revealed; edited
        is what was accepted before, is again, and holds another token now. Accepted places that
        are noise again show as masked in the next step.
        """
        # As many draws every time, so that later ones do not depend on what was accepted.
        sampled, noise = self._sampled(logits), self._noise()
        self._record(said, sampled, accepted, ready=accepted)
        self.tokens = np.where(accepted, sampled, noise)
        self.accepted = accepted

    def finish(self, said: Prediction, accepted: BoolArray) -> None:
        """The most likely tokens, now the sequence's: all noise is revealed."""
        everywhere = np.ones_like(accepted)
        self._record(said, said.token, everywhere, ready=accepted)
        self._sequence.tokens[self._sequence.places(self._block)] = said.token

    def _record(
        self, said: Prediction, new: IntArray, kept: BoolArray, *, ready: BoolArray
    ) -> None:
        noise = ~self.accepted
        update = Update(
            masked=int(noise.sum()),
            ready=int((noise & ready).sum()),
            revealed=int((noise & kept).sum()),
            edited=int((self.accepted & kept & (self.tokens != new)).sum()),
            agreeing=int((self.accepted & (self.tokens == said.token)).sum()),
        )
        self._sequence.record.update(self._block, update)

    def _noise(self) -> IntArray:
        """Uniform over all tokens but the mask, one a place."""
        return uniform_noise(self._draws, self._sequence.facts, self._sequence.block_tokens)

    def _sampled(self, logits: torch.Tensor) -> IntArray:
        """A token a place from the soft-max of *logits*, by the Gumbel trick: never the mask."""
        noisy = logits.numpy() + self._draws.gumbel(size=tuple(logits.shape))
        return np.asarray(noisy.argmax(axis=1), dtype=np.int64)


def entropy_nats(logits: torch.Tensor) -> FloatArray:
    """Entropy of the soft-max of each row of *logits* [n, vocab], in nats, [n]."""
    return np.asarray(torch.special.entr(logits.softmax(dim=-1)).sum(dim=-1).numpy())


def within_bound(entropy: FloatArray, bound: float) -> BoolArray:
    """Places, taken in order of *entropy*, before which no more than *bound* has added up.

    The surest place is always one of them.
    """
    order = np.argsort(entropy, kind="stable")
    before = np.concatenate([[0.0], entropy[order].cumsum()[:-1]])
    accepted = np.zeros(len(entropy), dtype=np.bool_)
    accepted[order] = before <= bound
    return accepted
