"""Sequence: the tokens of one request as they are decoded, block by block.

Positions are absolute and prompts are not padded. Blocks are the absolute intervals that are left
once whole blocks of the prompt are prefilled, so the rest of a prompt begins block 0 and is never
masked nor edited; or they are counted from the prompt's end, where a decoder says so.
"""

from collections.abc import Sequence as Items

import numpy as np

from kernels_ref.decoding.query import BoolArray, IntArray, ModelFacts
from kernels_ref.decoding.record import Record
from kernels_ref.decoding.request_rules import check_request


class Sequence:
    """One request: the only thing that a decoder changes."""

    def __init__(  # noqa: PLR0913 (what a request says)
        self,
        prompt: Items[int],
        *,
        facts: ModelFacts,
        block_tokens: int,
        output_tokens: int,
        request: int = 0,
        seed: int = 0,
        from_prompt: bool = False,
    ) -> None:
        """Behind *prompt* everything is masked, for at most *output_tokens*.

        *from_prompt* counts blocks from the prompt's end. *request* and *seed* are for decoders
        that draw. Raises ValueError for an empty prompt, tokens outside the vocabulary, no output,
        and more than the context holds.
        """
        check_request(prompt, facts, block=block_tokens, output_tokens=output_tokens)
        self.facts = facts
        self.request, self.seed = request, seed
        self.prompt_tokens = len(prompt)
        self.block_tokens = block_tokens
        self.first_start = (
            len(prompt) if from_prompt else len(prompt) // block_tokens * block_tokens
        )
        """Absolute place of block 0: what is before it is prefilled."""
        self.output_end = len(prompt) + output_tokens
        self.n_blocks = -(-(self.output_end - self.first_start) // block_tokens)
        _check_fits(self, output_tokens)
        self.tokens: IntArray = np.full(self.start(self.n_blocks), facts.mask_token, dtype=np.int64)
        self.tokens[: len(prompt)] = prompt
        self.record = Record()

    @property
    def capacity_tokens(self) -> int:
        """Places that its KV takes: all blocks, whole."""
        return len(self.tokens)

    def start(self, block: int) -> int:
        """Absolute place of a block's first token."""
        return self.first_start + block * self.block_tokens

    def places(self, block: int) -> slice:
        """Absolute places of a block."""
        return slice(self.start(block), self.start(block + 1))

    def window(self, left: int, right: int) -> IntArray:
        """Tokens of the blocks from *left* up to *right*."""
        return self.tokens[self.start(left) : self.start(right)].copy()

    def is_masked(self, block: int) -> BoolArray:
        """Places of a block that hold no token yet; a prompt may have the mask among its tokens."""
        masks = np.equal(self.tokens[self.places(block)], self.facts.mask_token)
        return masks & self.is_answer(block)

    def is_answer(self, block: int) -> BoolArray:
        """Places of a block that are not the prompt's, and so may change."""
        places = self.places(block)
        return np.arange(places.start, places.stop) >= self.prompt_tokens

    def has_end(self, block: int) -> bool:
        """Whether the answer ends in this block: an end token with no mask before it in the block.

        Blocks before it are taken to be complete.
        """
        tokens = self.tokens[self.places(block)][self.is_answer(block)]
        ends = np.flatnonzero(np.isin(tokens, self.facts.end_tokens))
        return len(ends) > 0 and not (tokens[: ends[0]] == self.facts.mask_token).any()

    def retire(self, block: int) -> bool:
        """Make *block* final and say so in the record; whether decoding is over with it."""
        places = self.places(block)
        before = self.output_tokens(min(places.start, self.output_end))
        committed = self.output_tokens(min(places.stop, self.output_end)) - before
        self.record.retire(block, committed)
        return self.has_end(block) or block + 1 == self.n_blocks

    def output_tokens(self, end: int | None = None) -> int:
        """Output tokens before place *end*: those behind the prompt, up to the first end token."""
        return len(self.output(end))

    def output(self, end: int | None = None) -> IntArray:
        """The answer without its end token, cut at place *end* or the limit."""
        last = self.output_end if end is None else end
        tokens = self.tokens[self.prompt_tokens : max(last, self.prompt_tokens)]
        ends = np.flatnonzero(np.isin(tokens, self.facts.end_tokens))
        return tokens[: ends[0]] if len(ends) else tokens

    @property
    def finish_reason(self) -> str:
        """Either "end" where an end token came, "limit" where the output was cut."""
        return "end" if len(self.output()) < self.output_end - self.prompt_tokens else "limit"


def _check_fits(sequence: Sequence, output_tokens: int) -> None:
    """The last block is decoded whole, so it too must fit."""
    whole, context_tokens = sequence.start(sequence.n_blocks), sequence.facts.context_tokens
    if whole > context_tokens:
        rule = (
            f"prompt and output, in whole blocks, fit the context of {context_tokens} tokens; "
            f"{sequence.prompt_tokens} and {output_tokens} in blocks of {sequence.block_tokens} "
            f"take {whole}"
        )
        raise ValueError(rule)
