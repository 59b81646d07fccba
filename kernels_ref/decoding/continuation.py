"""Continuation: the tokens of one request as they are decoded, from left to right."""

from collections.abc import Iterable
from collections.abc import Sequence as Items

import numpy as np

from kernels_ref.decoding.iteration_record import IterationRecord
from kernels_ref.decoding.query import FloatArray, IntArray, ModelFacts
from kernels_ref.decoding.request_rules import check_request
from kernels_ref.decoding.speculation import drawn
from kernels_ref.decoding.uniform_noise import uniform_noise


class Continuation:
    """One request: the only thing that a decoder changes.

    All it draws follows from its seed and request, so a row does not depend on its batch.
    """

    def __init__(  # noqa: PLR0913 (what a request says)
        self,
        prompt: Items[int],
        *,
        facts: ModelFacts,
        output_tokens: int,
        extra_tokens: int = 0,
        request: int = 0,
        seed: int = 0,
    ) -> None:
        """Behind *prompt* follow at most *output_tokens*; drafts take *extra_tokens* places more.

        Raises ValueError for an empty prompt, tokens outside the vocabulary, no output, and more
        than the context holds. Drafts behind the limit are dropped, so they may lie beyond it.
        """
        check_request(prompt, facts, output_tokens=output_tokens)
        self.facts = facts
        self.request, self.seed = request, seed
        self.prompt_tokens = len(prompt)
        self.output_end = len(prompt) + output_tokens
        """Absolute place behind the last token that there may be."""
        self._check_fits()
        self.capacity_tokens = self.output_end + extra_tokens
        """Places that its KV may come to take."""
        self.tokens: IntArray = np.array(prompt, dtype=np.int64)
        """Those that are committed, the prompt's among them, [places]."""
        self.record = IterationRecord()
        self._draws = np.random.default_rng((seed, request))

    def _check_fits(self) -> None:
        if self.output_end > self.facts.context_tokens:
            rule = (
                f"prompt and output fit the context of {self.facts.context_tokens} tokens; "
                f"{self.prompt_tokens} and {self.output_end - self.prompt_tokens} "
                f"take {self.output_end}"
            )
            raise ValueError(rule)

    @property
    def last(self) -> int:
        """The newest token."""
        return int(self.tokens[-1])

    @property
    def stored_tokens(self) -> int:
        """Places whose KV is stored between iterations: all but the newest token's."""
        return len(self.tokens) - 1

    @property
    def is_over(self) -> bool:
        """Whether an end token came or the limit is reached."""
        return self._has_end or len(self.tokens) == self.output_end

    @property
    def _has_end(self) -> bool:
        """Only the newest token can be one: what follows an end is not kept."""
        return len(self.tokens) > self.prompt_tokens and self.last in self.facts.end_tokens

    def extend(self, tokens: Iterable[int]) -> int:
        """Commit *tokens* up to the first end token, it included, and to the limit: how many."""
        before = len(self.tokens)
        new = np.array(list(tokens), dtype=np.int64)[: self.output_end - before]
        ends = np.flatnonzero(np.isin(new, self.facts.end_tokens))
        kept = new[: ends[0] + 1] if len(ends) else new
        self.tokens = np.concatenate([self.tokens, kept])
        return len(kept)

    def output(self) -> IntArray:
        """The answer without its end token."""
        return self.tokens[self.prompt_tokens : len(self.tokens) - self._has_end]

    @property
    def finish_reason(self) -> str:
        """Either "end" where an end token came, "limit" where the output was cut."""
        return "end" if self._has_end else "limit"

    def draw(self, probabilities: FloatArray) -> int:
        """One of the entries of *probabilities* [n]."""
        return drawn(probabilities, self._draws.random())

    def noise(self, count: int) -> IntArray:
        """So many tokens, each uniform over all but the mask."""
        return uniform_noise(self._draws, self.facts, count)
