"""Eagle3Learner: a drafter that learns on its own states too, as it will meet them.

Training-time test (EAGLE-3): behind the pass over the target's features come passes over the
drafter's own. In pass k, place i takes the state that pass k - 1 left at place i - 1, and sees the
target's features up to place i - k and its own line of passes behind them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from kernels_ref.drafting.checkpoint import DrafterManifest
from kernels_ref.drafting.eagle3 import Eagle3, Eagle3Shape, random_eagle3
from kernels_ref.kernels.visibility import Visibility
from kernels_ref.named_weights import filled, tensors_in
from kernels_ref.passes import Batch, KeyValues
from kernels_ref.random_weights import normal
from kernels_ref.task.vocabulary import MASK
from kernels_ref.training.batches import sequences
from kernels_ref.training.draft_loss import draft_loss, log_probabilities
from kernels_ref.training.draft_recipe import DraftRecipe
from kernels_ref.training.drafters import Step, drawn_step, target_of, told, write_trained
from kernels_ref.training.learner import leaves
from kernels_ref.training.streams import given_pairs

COUNTED_PROBLEMS = 2000
"""Problems by which the most frequent tokens are found."""


@dataclass(frozen=True, eq=False)
class Line:
    """One pass: states [rows, places from *first* on, hidden], counted from *valid_from* on."""

    states: torch.Tensor
    first: int
    valid_from: int


class KeyStreams:
    """Keys and values of the passes so far, one behind the other."""

    def __init__(self) -> None:
        """Begin with none."""
        self._streams: list[KeyValues] = []

    def with_new(self, key: torch.Tensor, value: torch.Tensor) -> KeyValues:
        """All, those of another pass behind them."""
        self._streams.append((key, value))
        keys, values = zip(*self._streams, strict=True)
        return torch.cat(keys, dim=1), torch.cat(values, dim=1)


class Eagle3Learner:
    """All weights of the drafter; embedding and features are its target's."""

    def __init__(self, recipe: DraftRecipe, start: Path | None) -> None:
        """Beside the target whose manifest is *start*; raises CheckpointError for a wrong one."""
        self._recipe = recipe
        self._target = target_of(recipe, start)
        target = self._target.decoder
        layer = replace(target.shape.layers[0], count=1)
        self._map = frequent_tokens(recipe.draft_vocab, recipe.phrasing, recipe.seed)
        self._shape = Eagle3Shape(
            hidden=target.shape.hidden,
            layer=layer,
            draft_vocab=len(self._map),
            tapped=recipe.tapped,
            rotary_theta=target.shape.rotary_theta,
        )
        weights = random_eagle3(self._shape, normal(torch.float32, "cpu", recipe.seed))
        self.tensors = leaves(tensors_in(weights))
        embedding = target.weights.embedding
        self._drafter = Eagle3(self._shape, filled(weights, self.tensors), embedding)

    def loss(self, step: int) -> torch.Tensor:
        """Weighted mean over as many passes as the block has tokens."""
        drawn = drawn_step(self._recipe, step)
        given = drawn.given
        answers = told(self._target.decoder, given, self._recipe.tapped)
        # Place i predicts the token at i + 2, of which the target speaks at i + 1.
        places = given.tokens.shape[1] - 2
        wanted = log_probabilities(answers.logits[:, 1 : places + 1], self._map)
        stage = self._recipe.stage(self._recipe.loss, step)
        parts, shares = list[torch.Tensor](), list[float]()
        for line in self._lines(drawn, answers.features[:, :places]):
            drafted = self._drafter.logits(line.states)
            weights = np.where(np.arange(places) < line.valid_from, 0.0, given.weights[:, 2:])
            told_there = wanted[:, line.first :]
            log_q = drafted.log_softmax(dim=-1)
            parts.append(draft_loss(log_q, told_there, weights[:, line.first :], stage))
            shares.append(self._recipe.decay ** len(shares))
        return (torch.stack(parts) * torch.tensor(shares)).sum() / sum(shares)

    def _lines(self, drawn: Step, features: torch.Tensor) -> Iterator[Line]:
        """The passes, the first one over all places, the others over those of answers."""
        places = features.shape[1]
        tokens = torch.from_numpy(drawn.given.tokens[:, 1 : places + 1])
        earlier = KeyStreams()
        states, hidden, first = torch.empty(0), self._drafter.fused(features), 0
        for number in range(drawn.block_tokens):
            if number == 1:
                first = drawn.first - 1
                hidden = states[:, first - 1 : -1]
            elif number > 1:
                # The first place has no state before it, so what follows from it is not counted.
                hidden = torch.cat([states[:, :1], states[:, :-1]], dim=1)
            states = self._pass(tokens[:, first:], hidden, earlier, first=first, number=number)
            yield Line(states, first, first + max(number - 1, 0))

    def _pass(
        self,
        tokens: torch.Tensor,
        hidden: torch.Tensor,
        earlier: KeyStreams,
        *,
        first: int,
        number: int,
    ) -> torch.Tensor:
        """States of pass *number* over the places from *first* on."""
        rows, count = tokens.shape
        seen = seen_by_pass(rows, first + count, first, number)
        batch = Batch(
            rows,
            count,
            torch.arange(first, first + count).expand(rows, -1),
            seen.prefix_tokens,
            seen.query_tokens,
            gate=None,
        )
        keys = int(seen.prefix_tokens[0]) + count
        plan = self._drafter.plans_over(seen, count, keys)[0]
        return self._drafter.drafted(tokens, hidden, batch, earlier.with_new, plan)

    def write(self, folder: Path, losses: Sequence[float]) -> DrafterManifest:
        """Put the drafter into *folder* and say what its manifest says."""
        tensors = {**self.tensors, "draft_to_target": self._map}
        return write_trained(
            self._recipe,
            folder,
            tensors,
            losses,
            target=self._target,
            shape=asdict(self._shape),
        )


def seen_by_pass(rows: int, places: int, first: int, number: int) -> Visibility:
    """Who sees whom in pass *number*: keys are the places of pass 0, then those of each later one.

    Later passes have the places from *first* on.
    """
    query = np.arange(first if number else 0, places)[:, None]
    seen = [np.arange(places) <= query - number]
    later = np.arange(first, places)
    seen += [later == query - number + own for own in range(1, number + 1)]
    pairs = np.concatenate(seen, axis=1)
    return given_pairs(np.broadcast_to(pairs, (rows, *pairs.shape)).copy())


def frequent_tokens(count: int, phrasing: int | None, seed: int) -> torch.Tensor:
    """The *count* most frequent tokens of solutions in training, in rising order, int32."""
    given = sequences(COUNTED_PROBLEMS, 1, seed, phrasing=phrasing)
    counts = np.bincount(given.tokens[given.weights > 0])
    counts[MASK] = 0
    often = np.argsort(-counts, kind="stable")[:count]
    return torch.from_numpy(np.sort(often[counts[often] > 0]).astype(np.int32))
