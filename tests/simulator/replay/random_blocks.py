"""Traces of blocks by a random decoder: the naive state machines with a model that rolls dice."""

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from simulator import decoding
from tests.simulator.replay.naive_blocks import (
    Buffer,
    Oracle,
    Recorded,
    Text,
    Update,
    Wave,
    run_serially,
)
from tests.traces.hand_made import HandMade
from tests.traces.tiny_trace import FIELDS
from traces.block_tables import LOCAL_LISTS, SCHEMAS
from traces.block_trace import BlockTrace, read_block_trace

MOST_EDITS = 4


@dataclass
class Dice:
    """Reveals some masks; edits what is complete a few times; forces as the rule says."""

    random: random.Random
    edits: bool
    patience: int
    """In how many forwards of a dozen nothing is ready."""
    fills_after: int = 10_000
    """Forwards after which all masks are revealed (frozen blocks)."""
    freezes_after: int = 10_000
    """Forwards without a mask after which nothing is edited."""

    def __call__(
        self,
        text: Text,
        number: int,
        masked: int,
        behind: int,  # noqa: ARG002 (of the interface)
        forced: bool | None,  # noqa: FBT001 (of the interface)
    ) -> tuple[Update, int]:
        """A local step and the masks that it leaves."""
        block = text.blocks[number]
        ready = 0 if self.random.randrange(12) < self.patience else self.random.randint(0, masked)
        revealed = ready or int(masked > 0 and forced is not False)
        if len(block.updates) + 1 >= self.fills_after:
            revealed = masked
        answered = block.places - masked
        again = sum(update.edited > 0 for update in block.updates)
        mask_free = sum(update.masked == 0 for update in block.updates)
        may_edit = self.edits and again < MOST_EDITS and mask_free < self.freezes_after
        changes = may_edit and self.random.random() < 0.4
        edited = self.random.randint(0, answered) if changes else 0
        agreeing = self.random.randint(0, answered - edited)
        return Update(masked, ready, revealed, edited, agreeing), masked - revealed


@dataclass(frozen=True)
class Captured:
    """A trace, the texts that it was written from, and the parameters that it was made with."""

    trace: BlockTrace
    texts: list[Text]
    parameters: Any
    edits: bool


@st.composite
def texts(draw: st.DrawFn, dice: random.Random, tokens: int) -> list[Text]:
    """A few requests of any lengths under one limit."""
    limit = draw(st.integers(1, 6 * tokens), label="limit")
    made = []
    for number in range(draw(st.integers(1, 4), label="requests")):
        ended = dice.random() < 0.75
        output = dice.randint(0, limit - 1) if ended else limit
        text = Text(number, dice.randint(1, 3 * tokens), output, ended, limit, tokens)
        text.end_at = dice.randint(1, text.blocks[text.last].places)
        made.append(text)
    return made


def fresh_texts(captured: Captured, *, exact: bool) -> list[Text]:
    """The captured requests before their first forward, each on its own recorded blocks."""
    made, first = [], 0
    for old in captured.texts:
        text = Text(old.number, old.prompt, old.output, old.ended, old.limit, old.tokens)
        n_admitted = sum(block.admitted >= 0 for block in old.blocks)
        for place in range(n_admitted):
            text.blocks[place].recorded = first + place
        first += n_admitted
        text.most_blocks = n_admitted if exact else None
        made.append(text)
    return made


def run_wave(texts: list[Text], oracle: Oracle, parameters: Any, batch: int) -> None:
    """Rows by themselves, or the rows of every batch together."""
    together = batch if parameters.batching == "synchronous" else 1
    for first in range(0, len(texts), together):
        Wave(texts[first : first + together], oracle, parameters).run()


@st.composite
def waves(draw: st.DrawFn) -> Captured:
    """A trace of gated wavefront decoding."""
    dice, tokens, batch = _dice(draw)
    parameters = decoding.policy("gwd").Parameters(**draw(wave_parameters(tokens)))
    made, edits = draw(texts(dice, tokens)), draw(st.booleans(), label="edits")
    run_wave(made, Dice(dice, edits, draw(st.integers(0, 8))), parameters, batch)
    return Captured(_trace(made, parameters, tokens, batch, edits), made, parameters, edits)


@st.composite
def buffers(draw: st.DrawFn) -> Captured:
    """A trace of decoding in a buffer."""
    dice, tokens, batch = _dice(draw)
    parameters = decoding.policy("block-buffer").Parameters(**draw(buffer_parameters(tokens)))
    made, edits = draw(texts(dice, tokens)), draw(st.booleans(), label="edits")
    fills_after = tokens + parameters.post_edit_steps if edits else 10_000
    oracle = Dice(dice, edits, draw(st.integers(0, 8)), fills_after)
    for text in made:
        Buffer(text, oracle, parameters, edits=edits).run()
    return Captured(_trace(made, parameters, tokens, batch, edits), made, parameters, edits)


@st.composite
def serial(draw: st.DrawFn) -> Captured:
    """A trace of self-correction, which its budget ends now and then."""
    dice, tokens, batch = _dice(draw)
    made, most = draw(texts(dice, tokens)), draw(BUDGETS, label="post_edit_steps")
    given = {"policy": "joint-threshold", "trace": "random", "block": tokens}
    parameters = decoding.policy("joint-threshold").Parameters(**given, post_edit_steps=most)
    edits = True
    oracle = Dice(dice, edits, draw(st.integers(0, 8)), freezes_after=most)
    for text in made:
        run_serially(text, oracle, parameters)
    return Captured(_trace(made, parameters, tokens, batch, edits), made, parameters, edits)


BUDGETS = st.integers(1, 5)


def _dice(draw: st.DrawFn) -> tuple[random.Random, int, int]:
    dice = random.Random(draw(st.integers(0, 10**6), label="seed"))  # noqa: S311 (no secret)
    return dice, draw(st.integers(1, 6), label="block"), draw(st.integers(1, 3), label="batch")


def wave_parameters(tokens: int) -> st.SearchStrategy[dict[str, Any]]:
    """Any window and gate."""
    return st.fixed_dictionaries(
        {
            "policy": st.just("gwd"),
            "trace": st.just("random"),
            "block": st.just(tokens),
            "window": st.integers(1, 5),
            "theta_spawn": st.sampled_from([0.0, 0.2, 0.5, 0.75, 1.0]),
            "batching": st.sampled_from(["packed", "synchronous"]),
            "full_window": st.booleans(),
        }
    )


def buffer_parameters(tokens: int) -> st.SearchStrategy[dict[str, Any]]:
    """Any buffer and thresholds."""
    shares = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
    return st.fixed_dictionaries(
        {
            "policy": st.just("block-buffer"),
            "trace": st.just("random"),
            "block": st.just(tokens),
            "buffer": st.sampled_from([1, 2, 2, 3, 3, 4]),
            "tau_add": st.sampled_from([0.0, 0.1, 0.1, 0.5, 0.9, 1.0]),
            "tau_semi": shares,
            # Anything above 0 keeps all but complete blocks from being followed by another one.
            "tau_stable": st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.5, 1.0]),
            "post_edit_steps": st.integers(1, 5),
            "forced": st.sampled_from(["semi-complete", "always"]),
        }
    )


def _trace(
    made: list[Text],
    parameters: Any,
    tokens: int,
    batch: int,
    edits: bool,  # noqa: FBT001 (handed on)
) -> BlockTrace:
    """What was decoded, through the reader and all its rules."""
    rows = {
        "requests": [_request(text, batch) for text in made],
        "blocks": [row for text in made for row in _blocks(text)],
        "steps": [
            {"request": text.number, "step": step} | forward
            for text in made
            for step, forward in enumerate(text.forwards)
        ],
    }
    kept = {name: value for name, value in vars(parameters).items() if name not in _OTHER}
    fields = FIELDS | {
        "name": "random",
        "policy": parameters.policy,
        "parameters": kept | {"tau_edit": 0.5 if edits else None},
        "block_tokens": tokens,
        "batch": batch,
        "output_limit_tokens": made[0].limit,
        "counts": _counts(rows["requests"], batch),
        "accuracy": {"correct": None, "valid": None},
        "requests_asked": len(made),
        "warnings": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        return read_block_trace(HandMade(fields, rows, SCHEMAS).put(Path(folder)))


_OTHER = ("policy", "trace", "tokens_per_forward", "block")


def _request(text: Text, batch: int) -> dict[str, Any]:
    kinds = [forward["kind"] for forward in text.forwards]
    return {
        "request": text.number,
        "problem": text.number,
        "batch": text.number // batch,
        "row": text.number % batch,
        "prompt_tokens": text.prompt,
        "output_tokens": text.output,
        "prefill_forwards": kinds.count("prefill"),
        "denoise_forwards": kinds.count("denoise"),
        "store_forwards": kinds.count("store"),
        "finish_reason": "end" if text.ended else "limit",
        "correct": None,
        "valid": None,
        "output": [1] * text.output,
    }


def _blocks(text: Text) -> list[dict[str, Any]]:
    return [
        {
            "request": text.number,
            "block": number,
            "admitted": block.admitted,
            "finished": block.finished,
            "retired": block.retired,
            **{name: [getattr(done, name) for done in block.updates] for name in LOCAL_LISTS},
        }
        for number, block in enumerate(text.blocks)
        if block.admitted >= 0
    ]


def _counts(requests: list[dict[str, Any]], batch: int) -> dict[str, int]:
    """Totals; a batch goes on until its slowest row is done."""
    batches = [requests[first : first + batch] for first in range(0, len(requests), batch)]
    names = ("output_tokens", "prefill_forwards", "denoise_forwards", "store_forwards")
    prefilled = [max(row["prefill_forwards"] for row in rows) for rows in batches]
    slowest = [max(r["denoise_forwards"] + r["store_forwards"] for r in rows) for rows in batches]
    return {
        "requests": len(requests),
        **{name: sum(row[name] for row in requests) for name in names},
        "batch_forwards": sum(prefilled) + sum(slowest),
        "batch_prefill_forwards": sum(prefilled),
    }


def naive_again(captured: Captured, parameters: Any, *, batch: int, exact: bool) -> list[Text]:
    """The captured requests again, under *parameters*, by the naive machine."""
    made = fresh_texts(captured, exact=exact)
    oracle = Recorded(captured.texts)
    if parameters.policy == "gwd":
        run_wave(made, oracle, parameters, batch)
    elif parameters.policy == "joint-threshold":
        for text in made:
            run_serially(text, oracle, parameters)
    else:
        for text in made:
            Buffer(text, oracle, parameters, edits=captured.edits).run()
    assert not exact or oracle.drawn == 0
    return made
