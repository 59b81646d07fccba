"""The empty model: as many layers and heads as a real one, each next to nothing wide.

What a decoder takes on it is what the engine adds to kernels: packing, masks, records, the
decoder's own logic, and the launch of every operation, which the kernels' curves know too.
"""

from dataclasses import replace
from typing import Final

from kernels_ref.capture.source import Source
from kernels_ref.decoding.reference import ReferenceModel
from kernels_ref.pass_shape import LayerShape, PassShape
from kernels_ref.passes import Decoder
from kernels_ref.random_weights import normal, random_weights

HIDDEN: Final = 8
HEAD_DIM: Final = 2
RANK: Final = 2
SHARPNESS: Final = 4.0
"""Standard deviation of its logits: the most likely of a hundred tokens has a half or so."""


def empty_shape(shape: PassShape) -> PassShape:
    """*shape* as narrow as can be, but for the vocabulary, which sampling depends on."""
    rank = None if shape.adapter_rank is None else RANK
    layers = tuple(_narrow(layer) for layer in shape.layers)
    return replace(shape, hidden=HIDDEN, layers=layers, adapter_rank=rank, rotary_dim=None)


def _narrow(layer: LayerShape) -> LayerShape:
    return replace(layer, head_dim=HEAD_DIM, ffn=HIDDEN)


def empty_source(source: Source, seed: int = 0) -> Source:
    """*source* with the empty model of its own in place of what it has; *seed* draws its weights.

    Raises TypeError for a model that more than one decoder makes up.
    """
    model = source.model
    if not isinstance(model, ReferenceModel):
        rule = f"{source.name} drafts with layers of their own, and only one stack is emptied"
        raise TypeError(rule)
    table = model.decoder.weights.embedding
    shape = empty_shape(model.decoder.shape)
    weights = random_weights(shape, normal(table.dtype, table.device.type, seed))
    # Now and then it is sure of a token, so that gates open and drafts hold.
    weights = replace(weights, lm_head=SHARPNESS * weights.lm_head)
    return replace(
        source,
        name=f"empty {source.name}",
        model=ReferenceModel(Decoder(shape, weights), model.facts),
    )
