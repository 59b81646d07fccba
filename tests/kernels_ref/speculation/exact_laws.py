"""The law of what follows a prompt: chained by hand, and enumerated from a decoder's own code."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from kernels_ref.decoders import speculator
from kernels_ref.decoding.continuation import Continuation
from kernels_ref.decoding.query import FloatArray, IntArray
from kernels_ref.decoding.speculation import Draw
from kernels_ref.kernels.sampling import naive_sampling_probabilities
from tests.kernels_ref.decoders.models import Request
from tests.kernels_ref.speculation.continuing import Settings, continued
from tests.kernels_ref.speculation.enumerated import law_of
from tests.kernels_ref.speculation.table_model import Context, Drafter, TableModel

Law = dict[Context, float]
SAMPLING: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.7, "top_p": 0.85},
    {"temperature": 1.3, "sample_top_k": 2},
]
NOISE = 2
"""The token that stands for noise where draws are enumerated."""


def next_law(model: TableModel, context: Context, settings: Settings) -> FloatArray:
    """The law of the next token, by lists in double precision."""
    with np.errstate(divide="ignore"):
        logits = torch.from_numpy(np.log(model.law(context)))[None]
    law = naive_sampling_probabilities(
        logits,
        temperature=settings.get("temperature", 0.0),
        top_k=settings.get("sample_top_k"),
        top_p=settings.get("top_p", 1.0),
    )
    return np.asarray(law[0].numpy())


def chained(model: TableModel, prompt: Context, tokens: int, settings: Settings) -> Law:
    """The law of what autoregression says behind *prompt*, up to an end token or so many tokens."""
    law: Law = {}
    open_ones: Law = {(): 1.0}
    for _ in range(tokens):
        longer: Law = {}
        for path, chance in open_ones.items():
            for token, share in enumerate(next_law(model, (*prompt, *path), settings)):
                if share:
                    ended = token in model.facts.end_tokens
                    (law if ended else longer)[*path, token] = chance * float(share)
        open_ones = longer
    return law | open_ones


def drawing(draw: Draw) -> type[Continuation]:
    """Continuations that draw by *draw*, with one and the same token for noise."""

    class Drawing(Continuation):
        def draw(self, probabilities: FloatArray) -> int:
            """By *draw*."""
            return draw(probabilities)

        def noise(self, count: int) -> IntArray:
            """Fixed: whatever the noise is, the law must hold."""
            return np.full(count, NOISE)

    return Drawing


def decoded_law(
    model: TableModel, name: str, settings: Settings, prompt: Context, tokens: int
) -> Law:
    """The law of what policy *name* says, of whole decodes, by all ways that its draws fall."""

    def run(draw: Draw) -> Context:
        request = Request(prompt, tokens)
        (row,) = continued(model, name, settings, [request], kind=drawing(draw)).rows
        return tuple(row.tokens[len(prompt) :].tolist())

    return law_of(run)


def iteration_law(model: TableModel, name: str, settings: Settings, prompt: Context) -> Law:
    """The law of the first token and all tokens of the first iteration behind it."""

    def run(draw: Draw) -> Context:
        decoder = speculator(name)
        parameters = decoder.Parameters(**settings)
        extra = decoder.extra_tokens(parameters, parameters.block)
        row = drawing(draw)(prompt, facts=model.facts, output_tokens=30, extra_tokens=extra)
        group, cache = decoder.decode([row], parameters), model.new_cache(1, row.capacity_tokens)
        asked = next(group)
        while not row.record.iterations:
            row.record.ask(asked[0])
            (said,) = model.forward([asked[0]], cache)
            assert said is not None
            asked = group.send({0: said})
        return tuple(row.tokens[len(prompt) :].tolist())

    return law_of(run)


def completed(
    law: Mapping[Context, float],
    model: TableModel,
    prompt: Context,
    tokens: int,
    settings: Settings,
) -> Law:
    """*law* of texts of different lengths made one of *tokens*, by autoregression behind each."""
    whole: Law = {}
    for path, chance in law.items():
        rest = chained(model, (*prompt, *path), tokens - len(path), settings)
        for more, share in rest.items():
            whole[*path, *more] = whole.get((*path, *more), 0.0) + chance * share
    return whole


def always(law: FloatArray) -> Drafter:
    """A drafter that says the same whatever it sees."""
    return lambda _model, _ask: law
