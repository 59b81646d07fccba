"""Replay of blocks one request, one block and one number at a time, written apart from the program.

The two state machines follow Algorithm 1 of FlowBlock and Algorithm 5 of Multi-Block Diffusion.
Who says what a forward does to a block is an `Oracle`: a random decoder, which makes traces, or
`Recorded`, which reads them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Update(NamedTuple):
    """A local step: counts before the update."""

    masked: int
    ready: int
    revealed: int
    edited: int
    agreeing: int


@dataclass
class Block:
    """A block of an answer, and its life."""

    masks: int
    role: int
    recorded: int | None = None
    """Number of the trace's block that it begins on."""
    admitted: int = -1
    finished: int = -1
    retired: int = -1
    updates: list[Update] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Masks as they were at first stay known."""
        self.places = self.masks


@dataclass
class Text:
    """A request, its blocks up to the limit, and its forwards."""

    number: int
    prompt: int
    output: int
    ended: bool
    limit: int
    tokens: int
    """Of a block."""
    blocks: list[Block] = field(default_factory=list)
    forwards: list[dict[str, Any]] = field(default_factory=list)
    most_blocks: int | None = None
    """Blocks that were ever admitted, where the replay is that of the capture."""
    end_at: int = 0
    """Masks of the last block at which the end token stands in it, of a random decoder."""

    def __post_init__(self) -> None:
        """Cut the answer into blocks; block 0 begins with what the prompt has of it."""
        self.start = self.prompt - self.prompt % self.tokens
        self.last = (self.prompt + self.output + self.ended - 1 - self.start) // self.tokens
        number = 0
        while self.start + number * self.tokens < self.prompt + self.limit:
            end = self.start + (number + 1) * self.tokens
            if number == 0:
                role = 0
            else:
                role = 1 if number < self.last else 2 if number == self.last else 3
            self.blocks.append(Block(min(self.tokens, end - self.prompt), role))
            number += 1

    @property
    def count(self) -> int:
        """Forwards so far."""
        return len(self.forwards)

    def prefill(self) -> None:
        """The whole blocks of the prompt."""
        if self.start:
            self._forward("prefill", 0, self.start, self.start, 0, 0, 0)

    def forward(self, kind: str, left: int, right: int, slots: int) -> None:
        """Blocks from *left* up to *right* in at least so many *slots*."""
        query, padded = (n * self.tokens for n in (right - left, max(right - left, slots)))
        self._forward(kind, self.start + left * self.tokens, query, padded, padded, left, right)

    def _forward(self, *values: Any) -> None:
        names = "kind prefix_tokens query_tokens padded_tokens logit_rows window_left window_right"
        counts = {"revealed": 0, "edited": 0, "committed_tokens": 0}
        self.forwards.append(dict(zip(names.split(), values, strict=True)) | counts)

    def update(self, number: int, done: Update) -> None:
        """Keep what the last forward did to a block."""
        self.blocks[number].updates.append(done)
        self.forwards[-1]["revealed"] += done.revealed
        self.forwards[-1]["edited"] += done.edited

    def retire(self, number: int) -> bool:
        """A block is final; whether the request is over with it."""
        self.blocks[number].retired = self.count - 1
        begin = self.start + number * self.tokens
        answer = range(self.prompt, self.prompt + self.output)
        committed = sum(place in answer for place in range(begin, begin + self.tokens))
        self.forwards[-1]["committed_tokens"] += committed
        return number in {self.last, len(self.blocks) - 1}

    def behind(self, number: int) -> int:
        """Masks of the block before."""
        return self.blocks[number - 1].masks if number else 0


# (text, number of the block, its masks, those of the block before, forced) -> (update, masks left)
Oracle = Callable[[Text, int, int, int, "bool | None"], tuple[Update, int]]


class Wave:
    """Gated wavefront decoding of texts that retire and admit together."""

    def __init__(self, texts: list[Text], oracle: Oracle, parameters: Any) -> None:
        """A packed row is a wave of its own."""
        self.texts, self.oracle, self.parameters = texts, oracle, parameters
        self.live: dict[int, list[int]] = {text.number: [] for text in texts}
        self.right = {text.number: 0 for text in texts}
        self.readiness: dict[tuple[int, int], float] = {}
        self.done: dict[tuple[int, int], bool] = {}

    def run(self) -> None:
        """To the end of all of them."""
        for text in self.texts:
            text.prefill()
            self._admit(text)
        alive = list(self.texts)
        while alive:
            for text in alive:
                self._step(text)
            while alive and all(self._leads(text) for text in alive):
                alive = [t for t in alive if not t.retire(self.live[t.number].pop(0))]
            if alive and min(map(self._ready, alive)) >= self.parameters.theta_spawn:
                for text in alive:
                    room = len(self.live[text.number]) < self.parameters.window
                    if room and self.right[text.number] < len(text.blocks):
                        self._admit(text)

    def _admit(self, text: Text) -> None:
        number = self.right[text.number]
        text.blocks[number].admitted = text.count
        self.live[text.number].append(number)
        self.right[text.number] += 1

    def _step(self, text: Text) -> None:
        live = self.live[text.number]
        slots = self.parameters.window if self.parameters.full_window else 0
        text.forward("denoise", live[0], live[-1] + 1, slots)
        # What the forward saw is asked first, then written.
        answers = [
            self.oracle(text, number, text.blocks[number].masks, text.behind(number), None)
            for number in live
        ]
        for number, (done, left) in zip(live, answers, strict=True):
            text.update(number, done)
            text.blocks[number].masks = left
            at = text.number, number
            self.readiness[at] = done.ready / done.masked if done.masked else 1.0
            was, self.done[at] = self.done.get(at, False), done.masked == 0 == done.edited
            if self.done[at] and not was:
                text.blocks[number].finished = text.count - 1

    def _leads(self, text: Text) -> bool:
        live = self.live[text.number]
        return bool(live) and self.done[text.number, live[0]]

    def _ready(self, text: Text) -> float:
        live = self.live[text.number]
        return self.readiness[text.number, live[-1]] if live else 1.0


class Buffer:
    """Decoding of one text in a fixed buffer of slots."""

    def __init__(self, text: Text, oracle: Oracle, parameters: Any, *, edits: bool) -> None:
        """Whether the model *edits* says when a block is ready to be stored."""
        self.text, self.oracle, self.parameters, self.edits = text, oracle, parameters, edits
        self.active: list[int] = []
        self.storing: list[int] = []
        self.right = 0
        self.ready: set[int] = set()
        self.stability: dict[int, float] = {}
        self.mask_free: dict[int, int] = {}

    def run(self) -> None:
        """To its end."""
        text, slots = self.text, self.parameters.buffer
        text.prefill()
        self._activate()
        while True:
            if self._may_activate():
                self._activate()
            live = self.storing + self.active
            if not live:
                return
            kind = "denoise" if self.active else "store"
            text.forward(kind, live[0], live[-1] + 1, slots)
            asked = [(number, self._is_forced(number)) for number in self.active]
            answers = [
                self.oracle(text, number, text.blocks[number].masks, text.behind(number), forced)
                for number, forced in asked
            ]
            for (number, _), (done, left) in zip(asked, answers, strict=True):
                self._settle(number, done, left)
            stored, self.storing = self.storing, []
            while self.active and self.active[0] in self.ready:
                self.storing.append(self.active.pop(0))
            for number in stored:
                text.retire(number)

    def _activate(self) -> None:
        self.text.blocks[self.right].admitted = self.text.count
        self.active.append(self.right)
        self.right += 1

    def _progress(self, number: int) -> float:
        return 1.0 if number < 0 else 1.0 - self.text.blocks[number].masks / self.text.tokens

    def _is_forced(self, number: int) -> bool:
        if self.parameters.forced == "always":
            return True
        return bool(self._progress(number - 1) >= self.parameters.tau_semi)

    def _may_activate(self) -> bool:
        live = len(self.storing + self.active)
        if live == self.parameters.buffer or not self._is_room():
            return False
        steady = self._progress(self.right - 1) >= self.parameters.tau_add
        stable = self.stability.get(self.right - 1, 0.0) >= self.parameters.tau_stable
        return (steady and stable) or not live

    def _is_room(self) -> bool:
        """Whether there is a next block and no end token stands."""
        text = self.text
        if text.most_blocks is not None:
            return self.right < text.most_blocks
        if self.right == len(text.blocks):
            return False
        return not (text.ended and self._end_stands())

    def _end_stands(self) -> bool:
        text = self.text
        end = text.blocks[text.last]
        if text.end_at:
            return end.masks < text.end_at
        complete = end.masks == 0
        begun = complete if text.last == 0 else end.masks < end.places
        return begun or self.right > text.last + 1

    def _settle(self, number: int, done: Update, left: int) -> None:
        text, block = self.text, self.text.blocks[number]
        text.update(number, done)
        answered = block.places - done.masked
        complete = done.masked == done.revealed
        block.masks = left
        if self.edits:
            self.mask_free[number] = self.mask_free.get(number, 0) + (done.masked == 0)
            most = self.parameters.post_edit_steps
            frozen = self.mask_free[number] >= most or len(block.updates) >= text.tokens + most
            self.stability[number] = done.agreeing / answered if answered else 0.0
            ready = complete and (frozen or (done.revealed, done.edited) == (0, 0))
        else:
            self.stability[number], ready = float(complete), complete
        if ready and number not in self.ready:
            block.finished = text.count - 1
        (self.ready.add if ready else self.ready.discard)(number)


def run_serially(text: Text, oracle: Oracle, parameters: Any) -> None:
    """Self-correction of one block after another (LLaDA-2.1)."""
    text.prefill()
    for number, block in enumerate(text.blocks):
        block.admitted, mask_free = text.count, 0
        while block.finished < 0:
            frozen = mask_free >= parameters.post_edit_steps
            text.forward("store" if frozen else "denoise", number, number + 1, 0)
            done, left = oracle(text, number, block.masks, text.behind(number), None)
            text.update(number, done)
            block.masks = left
            mask_free += done.masked == 0
            if done.masked == 0 and (frozen or done.edited == 0):
                block.finished = text.count - 1
        if text.retire(number):
            return


def keyed(limit: int, *key: int) -> int:
    """SplitMix64 over the parts of a key, in plain integers."""
    word, state = (1 << 64) - 1, 0
    for part in key:
        state = (state + part + 0x9E3779B97F4A7C15) & word
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & word
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & word
        state ^= state >> 31
    return state % limit


@dataclass(frozen=True)
class Step:
    """A recorded local step and its surroundings."""

    role: int
    behind: int
    update: Update
    block: int
    place: int


class Recorded:
    """The oracle that goes through a trace's blocks, and to the nearest step where it is off."""

    def __init__(self, texts: list[Text]) -> None:
        """*texts* as they were captured."""
        self.blocks: list[list[Step]] = []
        self.first: list[int] = []
        """Number of each text's block 0 in the trace."""
        for text in texts:
            self.first.append(len(self.blocks))
            admitted = [block for block in text.blocks if block.admitted >= 0]
            for number, block in enumerate(admitted):
                self.blocks.append(
                    [
                        Step(
                            block.role,
                            _behind(admitted, number, block.admitted + place),
                            update,
                            len(self.blocks),
                            place,
                        )
                        for place, update in enumerate(block.updates)
                    ]
                )
        self.steps = [step for block in self.blocks for step in block]
        self.at: dict[tuple[int, int], tuple[int, int]] = {}
        """Where in the trace each block goes on: block and place."""
        self.drawn = 0

    def __call__(
        self,
        text: Text,
        number: int,
        masked: int,
        behind: int,
        forced: bool | None,  # noqa: FBT001 (of the interface)
    ) -> tuple[Update, int]:
        """What a forward does to a block."""
        block, key = text.blocks[number], (text.number, number)
        if key not in self.at and block.recorded is not None:
            self.at[key] = block.recorded, 0
        step = None
        if key in self.at:
            of, place = self.at[key]
            if place < len(self.blocks[of]):
                step = self.blocks[of][place]
            elif masked == 0:
                return Update(0, 0, 0, 0, 0), 0
        if step is None or (step.update.masked, step.behind) != (masked, behind):
            step = self._near(block.role, masked, behind, 0, text.number, number, text.count)
            self.drawn += 1
            if step is None:
                return Update(masked, 0, int(bool(forced) and masked > 0), 0, 0), masked - int(
                    bool(forced) and masked > 0
                )
        self.at[key] = step.block, step.place + 1
        done = _scaled(step, masked, behind, forced)
        same = (step.update.masked, step.update.revealed) == (masked, done.revealed)
        rest = self.blocks[step.block][step.place + 1 :]
        return done, rest[0].update.masked if same and rest else masked - done.revealed

    def _near(self, role: int, masked: int, behind: int, *key: int) -> Step | None:
        alike = [s for s in self.steps if (s.update.masked > 0) == (masked > 0)]
        pool = [s for s in alike if s.role == role] or alike
        if not pool:
            return None
        apart = [abs(s.update.masked - masked) + abs(s.behind - behind) for s in pool]
        worst = sorted(apart)[:3][-1]
        near = [step for step, far in zip(pool, apart, strict=True) if far <= worst]
        return near[keyed(len(near), *key)]


def _behind(admitted: list[Block], number: int, forward: int) -> int:
    """Masks of the block before one at a forward, 0 once it has no local step there."""
    if number == 0:
        return 0
    before = admitted[number - 1]
    place = forward - before.admitted
    return before.updates[place].masked if 0 <= place < len(before.updates) else 0


def _scaled(step: Step, masked: int, behind: int, forced: bool | None) -> Update:  # noqa: FBT001 (of the interface)
    was = step.update
    counts = [
        max(0, min(masked, round(value * masked / max(1, was.masked))))
        for value in (was.ready, was.revealed)
    ]
    ready, revealed = counts
    strange = (was.masked, step.behind) != (masked, behind)
    if masked and (was.revealed or (strange and behind == 0)):
        revealed = max(revealed, 1)
    if forced is not None and ready == 0 and revealed <= 1:
        revealed = int(forced and masked > 0)
    return Update(masked, ready, revealed, was.edited, was.agreeing)
