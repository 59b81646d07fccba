"""EAGLE-3's drafter as decoders ask it, against every path recomputed from nothing."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from kernels_ref.decoding.query import Cache, IntArray, Prediction, Query, Tree
from kernels_ref.drafting.eagle3 import (
    Eagle3,
    Eagle3Drafter,
    Eagle3Weights,
    random_eagle3,
    vocabulary_mistake,
)
from kernels_ref.task.vocabulary import MASK
from tests.kernels_ref.drafting import naive
from tests.kernels_ref.drafting.naive import Node
from tests.kernels_ref.drafting.pairs import (
    EAGLE3,
    HIDDEN,
    MAPPED,
    TAPPED,
    VOCAB,
    chain,
    draw,
    drawn_features,
    drawn_tokens,
    said,
    same,
    stirred,
    target,
)

CAPACITY = 16


def weights() -> Eagle3Weights:
    """Random ones."""
    return stirred(random_eagle3(EAGLE3, draw()))


def drafter() -> Eagle3Drafter:
    """A drafter with them beside a random target."""
    return Eagle3Drafter(Eagle3(EAGLE3, weights(), target().weights.embedding), MAPPED, MASK)


def states_of(path: list[Node]) -> torch.Tensor:
    """State of the last node, recomputed from the whole *path*."""
    return naive.eagle3_state(weights(), EAGLE3, target().weights.embedding, path)


def of_target(tokens: IntArray, features: torch.Tensor) -> list[Node]:
    """Nodes at places that the target has been at: its features, fused."""
    fuse = weights().fuse
    given = zip(tokens.tolist(), features, strict=True)
    return [Node(token, place, fuse @ feature) for place, (token, feature) in enumerate(given)]


def answered(answer: Prediction, path: list[Node], query: int = -1) -> torch.Tensor:
    """Check what a query was told at the end of *path*; its state."""
    expected = states_of(path)
    assert answer.features is not None
    same(answer.features[query], expected)
    logits = answer.logits[query]
    drafted = naive.normed(expected, weights().final_norm) @ weights().lm_head.T
    same(logits[MAPPED], drafted)
    others = torch.ones(VOCAB, dtype=torch.bool)
    others[MAPPED] = False
    assert (logits[others] == -torch.inf).all()
    return answer.features[query]


class Chain:
    """Row by row the nodes that have been read, as a decoder extends and drops them."""

    def __init__(self, lengths: dict[int, int], rows: int) -> None:
        """Rows of so many places with features; the other rows wait."""
        self.drafter, self.rows = drafter(), rows
        self.cache: Cache = self.drafter.new_cache(rows, CAPACITY)
        self.tokens = {row: drawn_tokens(CAPACITY, row) for row in lengths}
        self.features = {row: drawn_features(CAPACITY, row) for row in lengths}
        self.paths: dict[int, list[Node]] = {row: [] for row in lengths}
        self.own: dict[int, torch.Tensor] = {}

    def take_in(self, new: dict[int, tuple[int, int]], *, padded: int | None = None) -> None:
        """The first draft of an iteration: places *new* of each row have features by now."""
        queries: list[Query | None] = [None] * self.rows
        for row, (left, right) in new.items():
            asked = {"asked": right - left - 1, "features": self.features[row][left:right]}
            size = {} if padded is None else {"padded": padded}
            tokens = self.tokens[row][left:right]
            queries[row] = chain("draft", left, tokens, **asked, **size)
            whole = self.tokens[row][:right], self.features[row][:right]
            self.paths[row] = of_target(*whole)
        self._ask(queries)

    def draft(self, tokens: dict[int, int]) -> None:
        """A further draft behind the last one of each row."""
        queries: list[Query | None] = [None] * self.rows
        for row, token in tokens.items():
            path, own = self.paths[row], self.own[row]
            queries[row] = chain("draft", len(path), np.array([token]), features=own[None])
            path.append(Node(token, len(path), states_of(path)))
        self._ask(queries)

    def _ask(self, queries: list[Query | None]) -> None:
        rows = [row for row, query in enumerate(queries) if query is not None]
        for row, answer in zip(rows, said(self.drafter, queries, self.cache), strict=True):
            self.own[row] = answered(answer, self.paths[row])


def test_a_chain_is_a_path_recomputed() -> None:
    """The prompt by the target's features, then single tokens by the drafter's own states.

    Rows of different length, one that waits, slots behind the tokens; then rows drop out.
    """
    drafted = Chain({0: 3, 2: 7}, rows=3)
    drafted.take_in({0: (0, 3), 2: (0, 7)}, padded=9)
    drafted.draft({0: 11, 2: 40})
    drafted.draft({0: 12, 2: 41})
    drafted.draft({2: 42})


def test_what_was_drafted_is_written_over() -> None:
    """In the next iteration features of the accepted places stand where own states were."""
    drafted = Chain({0: 4, 1: 6}, rows=2)
    drafted.take_in({0: (0, 4), 1: (0, 6)})
    for token in (20, 21, 22):
        drafted.draft({0: token, 1: token + 30})
    # Of three drafts row 0 accepts all and row 1 one; both also have the target's own token.
    drafted.take_in({0: (4, 8), 1: (6, 8)})
    drafted.draft({0: 50, 1: 51})
    drafted.draft({0: 52, 1: 53})


def test_every_state_is_told_and_only_asked_logits() -> None:
    """All states of the prompt come back, as features; logits of the last one alone."""
    tokens, features = drawn_tokens(5), drawn_features(5)
    model = drafter()
    query = chain("draft", 0, tokens, asked=4, features=features)
    (answer,) = said(model, [query], model.new_cache(1, CAPACITY))
    assert answer.features is not None
    assert (answer.left, len(answer.logits), len(answer.features)) == (4, 1, 5)
    path = of_target(tokens, features)
    for place in range(5):
        same(answer.features[place], states_of(path[: place + 1]))
    best = MAPPED[answer.logits[0, MAPPED].argmax()]
    assert answer.token.tolist() == [int(best)]
    share = answer.logits[0, MAPPED].softmax(dim=0).max()
    assert answer.probability[0] == pytest.approx(float(share))


PARENTS = ((-1, -1), (0, 0, 1), (2, 3))
"""Of the nodes of each level the node before, -1 for the root: numbered through all levels."""


def lines_of(levels: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    """All ancestors of each node, the node itself among them."""
    found: list[list[int]] = []
    for level in levels:
        found += [[*([] if p < 0 else found[p]), len(found) + i] for i, p in enumerate(level)]
    return found


def tree_query(
    first: int, level: int, tokens: list[int], own: torch.Tensor, lines: list[list[int]]
) -> Query:
    """The nodes of one *level*, which lie behind those of the levels before."""
    before = sum(map(len, PARENTS[:level]))
    count = len(PARENTS[level])
    ancestors = np.zeros((count, before + count), dtype=np.bool_)
    for row in range(count):
        ancestors[row, lines[before + row]] = True
    left = first + before
    tree = Tree(first, ancestors, np.full(count, first + level))
    given = np.array(tokens[before : before + count])
    # A tree says all that its nodes see; horizons are not looked at.
    return Query("draft", left, given, np.zeros_like(given), count, tree=tree, features=own)


def test_a_tree_grows_as_its_paths_alone() -> None:
    """Every node of three levels equals its path recomputed, at the position of its depth.

    Beside it a row drafts a chain in the same forwards, and a third row waits.
    """
    beside = drawn_tokens(CAPACITY, 7)
    prompt, tokens = 4, drawn_tokens(7, 9).tolist()
    text, features = drawn_tokens(prompt, 5), drawn_features(prompt, 5)
    root, other = of_target(text, features), of_target(beside[:2], drawn_features(2, 6))
    model = drafter()
    cache = model.new_cache(3, CAPACITY)
    first: list[Query | None] = [
        chain("draft", 0, text, asked=prompt - 1, features=features),
        None,
        chain("draft", 0, beside[:2], asked=1, features=drawn_features(2, 6)),
    ]
    answers = said(model, first, cache)
    own = [answered(answers[0], root)]
    chained = answered(answers[1], other)
    lines, paths = lines_of(PARENTS), list[list[Node]]()
    for level, parents in enumerate(PARENTS):
        before = len(paths)
        taken = torch.stack([own[parent + 1] for parent in parents])
        for i, parent in enumerate(parents):
            path = root if parent < 0 else paths[parent]
            paths.append([*path, Node(tokens[before + i], prompt + level, states_of(path))])
        place = 2 + level
        other = [*other, Node(int(beside[place]), place, states_of(other))]
        asked: list[Query | None] = [
            tree_query(prompt, level, tokens, taken, lines),
            None,
            chain("draft", place, beside[place : place + 1], features=chained[None]),
        ]
        answers = said(model, asked, cache)
        own += [answered(answers[0], paths[before + i], i) for i in range(len(parents))]
        chained = answered(answers[1], other)


def test_rows_are_what_they_are_alone() -> None:
    """What stands in other rows and slots is not seen."""
    lengths = (3, 8, 5)
    model = drafter()
    tokens = [drawn_tokens(n, n) for n in lengths]
    features = [drawn_features(n, n) for n in lengths]
    given = list(zip(tokens, features, strict=True))
    queries: list[Query | None] = [chain("draft", 0, t, features=f, padded=10) for t, f in given]
    together = said(model, queries, model.new_cache(3, CAPACITY))
    for answer, (t, f) in zip(together, given, strict=True):
        alone = model.new_cache(1, len(t))
        (expected,) = said(model, [chain("draft", 0, t, features=f)], alone)
        same(answer.logits[:, MAPPED], expected.logits[:, MAPPED])
        assert answer.features is not None
        assert expected.features is not None
        same(answer.features, expected.features)


def test_rows_that_leave_a_batch() -> None:
    """The cache of the rows that stay, in another order, goes on as before."""
    model = drafter()
    texts = [drawn_tokens(5, row) for row in range(3)]
    features = [drawn_features(5, row) for row in range(3)]
    queries: list[Query | None] = [
        chain("draft", 0, t, features=f) for t, f in zip(texts, features, strict=True)
    ]
    cache = model.new_cache(3, CAPACITY)
    answers = said(model, queries, cache)
    kept = cache.keep([2, 0])
    further: list[Query | None] = []
    for row in (2, 0):
        own = answers[row].features
        assert own is not None
        further.append(chain("draft", 5, np.array([33]), features=own[-1:]))
    for row, answer in zip((2, 0), said(model, further, kept), strict=True):
        path = of_target(texts[row], features[row])
        answered(answer, [*path, Node(33, 5, states_of(path))])


def test_the_mask_is_never_drafted() -> None:
    """Also not by a map that names it."""
    mapped = MAPPED.clone()
    mapped[0] = MASK
    decoder = Eagle3(EAGLE3, weights(), target().weights.embedding)
    model = Eagle3Drafter(decoder, mapped, MASK)
    query = chain("draft", 0, drawn_tokens(4), features=drawn_features(4))
    (answer,) = said(model, [query], model.new_cache(1, CAPACITY))
    assert (answer.logits[:, MASK] == -torch.inf).all()
    assert answer.logits[:, mapped[1:]].isfinite().all()


def test_what_it_takes_from_its_target() -> None:
    """The layers that it taps, and a weight that reads their states side by side."""
    assert drafter().tapped == TAPPED
    assert list(weights().fuse.shape) == [HIDDEN, 2 * HIDDEN]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (torch.tensor([3, 5, 7]), None),
        (torch.tensor([3, 5, 7], dtype=torch.int32), None),
        (torch.tensor([3.0, 5.0, 7.0]), "whole numbers [3], got torch.float32 [3]"),
        (torch.tensor([3, 5]), "whole numbers [3], got torch.int64 [2]"),
        (torch.tensor([[3, 5, 7]]), "got torch.int64 [1, 3]"),
        (torch.tensor([3, 5, 10]), "0 to 9, got 10"),
        (torch.tensor([-1, 5, 7]), "0 to 9, got -1"),
        (torch.tensor([3, 5, 3]), "each token once"),
    ],
)
def test_maps_into_the_targets_vocabulary(given: torch.Tensor, words: str | None) -> None:
    """Three drafted tokens into ten: one token of the target each."""
    mistake = vocabulary_mistake(given, 3, 10)
    assert (mistake is None) == (words is None)
    assert words is None or words in str(mistake)
