"""The KV that decoders leave: after every iteration that of the committed tokens, and of no draft.

Both the target's, with adapters off, and a drafter's for the places whose features it took in.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("torch")

from kernels_ref.decoding.draft_tree import DraftTree, chain
from kernels_ref.decoding.query import Cache, IntArray, Model, Move, Prediction, Query
from kernels_ref.decoding.verifying import causal, features_of, verify
from kernels_ref.drafting.model import PairCache
from tests.kernels_ref.decoders.models import WatchedCache, kv_of, requests_of, watched
from tests.kernels_ref.speculation.continuing import CASES, continued
from tests.kernels_ref.speculation.small_models import MASK, VOCAB, model_for

Kv = npt.NDArray[Any]
LENGTHS = [(1, 25), (6, 30), (13, 4)]
WARM = {"temperature": 1.5}
"""Enough for drafts of random drafters to be accepted now and then."""


def of_target(cache: Cache) -> Cache:
    """The target's part of *cache*."""
    return cache.target if isinstance(cache, PairCache) else cache


@dataclass
class Witness:
    """A model that notes what is stored whenever it is asked."""

    inner: Model
    target: dict[int, list[Kv]] = field(default_factory=dict)
    """By row: what the target has before each of its queries."""
    drafter: dict[int, list[Kv]] = field(default_factory=dict)
    """By row: what the drafter has of places whose features it took in."""
    moved: int = 0
    """Tokens whose KV was moved."""

    def __post_init__(self) -> None:
        """The model's own facts."""
        self.facts = self.inner.facts

    def new_cache(self, rows: int, capacity_tokens: int) -> WatchedCache:
        """One that knows its rows."""
        return watched(self.inner.new_cache(rows, capacity_tokens), tuple(range(rows)), {})

    def forward(self, queries: list[Query | None], cache: Cache) -> list[Prediction | None]:
        """The inner model's; noted after it, so that what is moved first is moved."""
        assert isinstance(cache, WatchedCache)
        said = self.inner.forward(queries, cache.inner)
        for place, (row, query) in enumerate(zip(cache.rows, queries, strict=True)):
            if query is not None:
                self._note(row, query, cache.inner, place)
        return said

    def _note(self, row: int, query: Query, cache: Cache, place: int) -> None:
        self.moved += 0 if query.moved is None else len(query.moved.sources)
        if query.features is None:
            self.target.setdefault(row, []).append(kv_of(of_target(cache), place, query.left))
        elif query.features.shape[1] > 24:
            assert isinstance(cache, PairCache)
            end = query.left if query.tokens[-1] == MASK else query.right
            self.drafter.setdefault(row, []).append(kv_of(cache.drafter, place, end))


def encoded(name: str, model: Model, tokens: IntArray) -> tuple[Kv, Kv | None]:
    """KV of *tokens* from nothing, and a drafter's of all places but the last."""
    cache = model.new_cache(1, len(tokens) + 1)
    (said,) = model.forward([causal("prefill", 0, tokens)], cache)
    assert said is not None
    stored = kv_of(of_target(cache), 0, len(tokens))
    if not isinstance(cache, PairCache):
        return stored, None
    features, end = features_of(said)[:-1], len(tokens) - 1
    # DFlash takes in what is before its query, EAGLE what stands beside it.
    left, own = (end, tokens[-1:]) if name == "dflash" else (0, tokens[1:])
    model.forward([causal("draft", left, own, features=features)], cache)
    return stored, kv_of(cache.drafter, 0, end)


@pytest.mark.parametrize(("name", "case"), CASES)
def test_what_is_stored_is_that_of_the_committed_tokens(name: str, case: dict[str, Any]) -> None:
    """Before every query of every iteration all places hold what re-encoding gives, to 1e-12."""
    witness = Witness(model_for(name, ()))
    batch = requests_of(LENGTHS, seed=3, vocab=VOCAB)
    rows = continued(witness, name, {**case, **WARM}, batch).rows
    accepted = [each.accepted for row in rows for each in row.record.iterations]
    assert name == "ar" or sum(accepted) > 2
    assert (witness.moved > 0) == (name.endswith("tree") and case["tree_size"] > 1)
    for number, row in enumerate(rows):
        target, drafter = encoded(name, witness.inner, row.tokens)
        for found in witness.target[number]:
            assert np.abs(found - target[: len(found)]).max(initial=0) < 1e-12
        drafted = witness.drafter.get(number, [])
        assert (drafter is None) == (not drafted)
        for found in drafted:
            assert drafter is not None
            assert len(found) <= len(drafter)
            assert np.abs(found - drafter[: len(found)]).max(initial=0) < 1e-12


TREE = DraftTree(np.array([4, 2, 3, 5, 2, 7]), np.array([-1, 0, 0, 1, 2, 4]))
PATHS = {1: [4, 2], 2: [4, 3], 3: [4, 2, 5], 4: [4, 3, 2], 5: [4, 3, 2, 7]}
PREFIX = np.array([3, 8, 1, 6, 2])


def begun(model: Model, rows: int) -> Cache:
    """A cache in which every row has the prefix."""
    cache = model.new_cache(rows, 16)
    model.forward([causal("prefill", 0, PREFIX)] * rows, cache)
    return cache


def test_a_tree_is_all_its_paths_at_once() -> None:
    """Every node is told what its path alone is told, beside a row that verifies a chain."""
    model = model_for("uno-tree")
    cache = begun(model, 2)
    tree, other = model.forward([verify(5, TREE), verify(5, chain([4, 3]))], cache)
    assert tree is not None
    assert other is not None
    for node, path in PATHS.items():
        (alone,) = model.forward([verify(5, chain(path))], begun(model, 1))
        assert alone is not None
        assert float((tree.logits[node, 1:] - alone.logits[-1, 1:]).abs().max()) < 1e-12
    assert float((other.logits[:, 1:] - tree.logits[[0, 2], 1:]).abs().max()) < 1e-12


@pytest.mark.parametrize("node", PATHS)
def test_a_moved_path_is_the_path_alone(node: int) -> None:
    """After the move the KV of prefix and path is that of their tokens, in a batch as well."""
    model = model_for("uno-tree")
    cache = begun(model, 2)
    model.forward([verify(5, chain([4, 3])), verify(5, TREE)], cache)
    places = np.flatnonzero(TREE.ancestors[node])[1:]
    move = Move(5 + places, 6)
    (_, said) = model.forward([None, causal("verify", 6 + len(places), [8], moved=move)], cache)
    text = np.array([*PREFIX, *PATHS[node], 8])
    again = model.new_cache(1, 16)
    (expected,) = model.forward([causal("prefill", 0, text)], again)
    assert said is not None
    assert expected is not None
    assert float((said.logits[-1, 1:] - expected.logits[-1, 1:]).abs().max()) < 1e-12
    kept, fresh = kv_of(cache, 1, len(text)), kv_of(again, 0, len(text))
    assert np.abs(kept - fresh).max() < 1e-12
    untouched, other = kv_of(cache, 0, 7), begun(model, 1)
    model.forward([verify(5, chain([4, 3]))], other)
    assert np.abs(untouched - kv_of(other, 0, 7)).max() < 1e-12
