"""Decoders without a cache: plain lists, everything recomputed, one sequence at a time.

A *Predict* takes all tokens up to the end of the last live block and gives, for every place, the
most likely token and its probability, block-causal. Forwards count prefill as none.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kernels_ref.decoding.query import Model, Query
from kernels_ref.decoding.reference import ReferenceModel
from tests.kernels_ref.decoders.models import Request
from tests.kernels_ref.decoders.naive_model import predictions

Predict = Callable[[list[int]], tuple[list[int], list[float]]]


@dataclass
class Run:
    """What a naive decoder did."""

    tokens: list[int]
    prompt: int
    block: int
    first: int
    """Place of block 0."""
    end: int
    """Place behind the last output token."""
    mask: int
    ends: tuple[int, ...]
    forwards: int = 0
    windows: list[tuple[int, int]] = field(default_factory=list)
    edits: int = 0

    def answer_places(self, block: int) -> list[int]:
        """Places of a block that are not the prompt's."""
        start = self.first + block * self.block
        return [place for place in range(start, start + self.block) if place >= self.prompt]

    def masked(self, block: int) -> list[int]:
        """Those that hold the mask."""
        return [place for place in self.answer_places(block) if self.tokens[place] == self.mask]

    def has_end(self, block: int) -> bool:
        """Whether an end token stands in the block's answer."""
        return any(self.tokens[place] in self.ends for place in self.answer_places(block))

    def see(self, predict: Predict, left: int, right: int) -> tuple[list[int], list[float]]:
        """One forward with blocks *left* up to *right* live."""
        self.forwards += 1
        self.windows.append((left, right))
        return predict(self.tokens[: self.first + right * self.block])

    @property
    def blocks(self) -> int:
        """ceil((prompt + output) / block) - floor(prompt / block)."""
        return (len(self.tokens) - self.first) // self.block


def predict_of(model: Model, block: int) -> Predict:
    """Whole sequences through *model*: the naive transformer, or integers in one uncached query."""

    def predict(tokens: list[int]) -> tuple[list[int], list[float]]:
        if isinstance(model, ReferenceModel):
            return predictions(model, tokens, block)
        horizon = np.array([(place // block + 1) * block for place in range(len(tokens))])
        query = Query("denoise", 0, np.array(tokens), horizon, len(tokens))
        (said,) = model.forward([query], model.new_cache(1, len(tokens)))
        assert said is not None
        return said.token.tolist(), said.probability.tolist()

    return predict


def start(model: Model, request: Request, block: int) -> Run:
    """A run at its beginning: blocks are absolute, the prompt's rest begins block 0."""
    prompt = len(request.prompt)
    end = prompt + request.output_tokens
    whole = -(-end // block) * block
    mask, ends = model.facts.mask_token, model.facts.end_tokens
    tokens = [*request.prompt, *[mask] * (whole - prompt)]
    return Run(tokens, prompt, block, prompt // block * block, end, mask, ends)


def single_block(run: Run, predict: Predict, *, tau_mask: float, fused: bool) -> Run:
    """LLaDA-2.0: reveal at the threshold or the best; a store forward a block, or fused."""
    for block in range(run.blocks):
        while masked := run.masked(block):
            token, probability = run.see(predict, block, block + 1)
            chosen = [place for place in masked if probability[place] >= tau_mask]
            for place in chosen or [max(masked, key=lambda place: probability[place])]:
                run.tokens[place] = token[place]
        if not fused:
            run.forwards += 1
            run.windows.append((block, block + 1))
        if run.has_end(block):
            break
    return run


def joint_step(
    run: Run,
    block: int,
    said: tuple[list[int], list[float]],
    *,
    tau_mask: float,
    tau_edit: float | None,
    forced: bool = True,
) -> tuple[bool, float]:
    """(changed, readiness) of one update of one block: LLaDA-2.1; no edits without tau."""
    token, probability = said
    masked = run.masked(block)
    there = [place for place in run.answer_places(block) if place not in masked]
    chosen = [place for place in masked if probability[place] > tau_mask]
    if not chosen and forced and masked:
        chosen = [max(masked, key=lambda place: probability[place])]
    edited = [
        place
        for place in there
        if tau_edit is not None
        and token[place] != run.tokens[place]
        and probability[place] > tau_edit
    ]
    ready = [place for place in masked if probability[place] >= tau_mask]
    for place in chosen + edited:
        run.tokens[place] = token[place]
    run.edits += len(edited)
    return bool(chosen or edited), len(ready) / len(masked) if masked else 1.0


def joint_threshold(
    run: Run, predict: Predict, *, tau_mask: float, tau_edit: float, post_edit_steps: int
) -> Run:
    """LLaDA-2.1, with one store forward where the cap came and its last step edited."""
    for block in range(run.blocks):
        post_edit = 0
        while True:
            complete = not run.masked(block)
            post_edit += complete
            if post_edit > post_edit_steps:
                # Only here where the last step edited: its KV is stale.
                run.see(predict, block, block + 1)
                break
            said = run.see(predict, block, block + 1)
            changed, _ = joint_step(run, block, said, tau_mask=tau_mask, tau_edit=tau_edit)
            if complete and not changed:
                break
        if run.has_end(block):
            break
    return run


@dataclass(frozen=True)
class Gate:
    """The parameters of gated wavefront decoding."""

    window: int
    theta: float
    tau_mask: float
    tau_edit: float
    post_edit_steps: int
    force_all: bool = True
    count_own: bool = False


def gwd(run: Run, predict: Predict, gate: Gate) -> Run:
    """FlowBlock, Algorithm 1; readiness is of the masks before the update, one admission a step."""
    left, right = 0, 1
    spent = [0] * run.blocks
    while left < run.blocks:
        said = run.see(predict, left, right)
        finished, readiness = {}, {}
        for block in range(left, right):
            complete = not run.masked(block)
            frozen = spent[block] >= gate.post_edit_steps
            changed, readiness[block] = joint_step(
                run,
                block,
                said,
                tau_mask=gate.tau_mask,
                tau_edit=None if frozen else gate.tau_edit,
                forced=gate.force_all or block == left,
            )
            finished[block] = complete and not changed
            spent[block] += complete and (gate.count_own or block == left)
        while left < right and finished[left]:
            left += 1
            if run.has_end(left - 1):
                return run
        room = right < run.blocks and right - left < gate.window
        if room and readiness[right - 1] >= gate.theta:
            right += 1
    return run
