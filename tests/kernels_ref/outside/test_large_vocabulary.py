"""Tokens and probabilities over the vocabulary of a real checkpoint."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from kernels_ref.decoding.query import ModelFacts, Query
from kernels_ref.decoding.reference import ReferenceModel
from kernels_ref.pass_shape import LayerShape, PassShape
from kernels_ref.passes import RandomDecoder

VOCAB, MASK = 157_184, 156_895


def test_confidence_is_the_softmax_without_the_mask() -> None:
    """Rows of many places and of few: each place's best token, its share of all but the mask's."""
    layer = LayerShape(count=1, query_heads=2, kv_heads=1, head_dim=4, ffn=8)
    decoder = RandomDecoder(PassShape(8, VOCAB, (layer,)), dtype=torch.float32, seed=4)
    model = ReferenceModel(decoder, ModelFacts(MASK, (156_892,), 32, 64, VOCAB))
    wide = Query("denoise", 0, np.arange(7), np.full(7, 7), 7, asked=1)
    narrow = Query("denoise", 0, np.array([5, 9]), np.full(2, 2), 2)
    said = model.forward([wide, None, narrow], model.new_cache(3, 8))

    assert said[1] is None
    for prediction, places in ((said[0], range(1, 7)), (said[2], range(2))):
        assert prediction is not None
        assert prediction.left == places.start
        logits = prediction.logits.numpy().astype(float)
        assert logits.shape == (len(places), VOCAB)
        assert (logits[:, MASK] == -np.inf).all()
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        assert prediction.token.tolist() == shares.argmax(axis=1).tolist()
        assert prediction.probability == pytest.approx(shares.max(axis=1), rel=1e-5)
