"""Runs the reference kernels of every operation of a stack on tensors of its sizes, and counts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from kernels_ref.kernels.attention import attention, prepare
from kernels_ref.kernels.kv_cache import move_kv
from kernels_ref.kernels.linear import linear
from kernels_ref.kernels.lm_head import lm_head
from kernels_ref.kernels.lora import add_gated_lora
from kernels_ref.kernels.moe import Router, grouped_experts, route
from kernels_ref.kernels.rms_norm import add_rms_norm, rms_norm
from kernels_ref.kernels.rotary import rotary
from kernels_ref.kernels.swiglu import swiglu
from kernels_ref.kernels.visibility import whole
from simulator.model import Adapter, Attention, Drafter, Experts, LayerGroup, Stack
from tests.kernels_ref.ledger import Ledger, counted_flop, size_bytes


@dataclass(frozen=True)
class Rows:
    """A batch: queries of each row, what it has cached, and the other loads of the pass."""

    query: tuple[int, ...]
    context: tuple[int, ...]
    logits: int = 0
    adapter: int = 0
    features: int = 0
    moved: int = 0

    @property
    def tokens(self) -> int:
        """Query tokens of the whole batch."""
        return sum(self.query)


@dataclass
class KernelByKernel:
    """Operations of one pass over *rows*, each run alone on random tensors of *dtype*."""

    rows: Rows
    dtype: torch.dtype = torch.bfloat16
    adapter: Adapter | None = None
    ledger: Ledger = field(default_factory=Ledger)
    experts_hit: list[int] = field(default_factory=list)
    """Of every layer with experts."""

    def tensor(self, *sizes: int) -> torch.Tensor:
        """Normal entries, scaled by the last axis so that nothing overflows."""
        scaled: torch.Tensor = torch.randn(sizes) / math.sqrt(sizes[-1])
        return scaled.to(self.dtype)

    def stack(self, stack: Stack) -> Ledger:
        """Everything that `pass_ops` lists; norms and their weights, which it leaves out, aside."""
        fusion = getattr(stack, "fusion_input", None)
        if fusion:
            x, weight = self.tensor(self.rows.features, fusion), self.tensor(stack.hidden, fusion)
            self.ledger.enter("fusion", lambda: linear(x, weight), (x, weight))
        self.head(stack)
        for group in stack.layers:
            for _ in range(group.count):
                self.layer(stack, group)
        self.norms(stack)
        return self.ledger

    def head(self, stack: Stack) -> None:
        """Embedding, LM head, and a soft-max that is written out before its maximum is read."""
        table, ids = self.tensor(stack.vocab, stack.hidden), torch.arange(self.rows.tokens)
        # Of the table only the rows of the tokens are read.
        self.ledger.enter("embedding", lambda: table[ids % stack.vocab], table[ids % stack.vocab])
        states = self.tensor(self.rows.logits, stack.hidden)
        logits = self.ledger.enter("lm head", lambda: lm_head(states, table), (states, table))
        probabilities = logits.softmax(dim=-1, dtype=torch.float32)
        self.ledger.enter("confidence", lambda: probabilities, (logits, probabilities))

    def norms(self, stack: Stack) -> None:
        """The first one alone, two per layer less that one fused with the add, and the last."""
        x, residual = (self.tensor(self.rows.tokens, stack.hidden) for _ in range(2))
        weight = torch.ones(stack.hidden)
        self.ledger.enter("norm", lambda: rms_norm(x, weight), x)
        for _ in range(2 * sum(group.count for group in stack.layers)):
            self.ledger.enter("norm", lambda: add_rms_norm(x, residual, weight), (x, residual))

    def layer(self, stack: Stack, group: LayerGroup) -> None:
        """One layer, norms left out."""
        spec, tokens = group.attention, self.rows.tokens
        width = getattr(stack, "attention_input", None) or stack.hidden
        shapes = list(stack.linear_shapes(group))
        qkv = {str(part): out for part, out, _ in shapes if part in {"q", "k", "v"}}
        self.linear("qkv", qkv, width)
        self.linear("o", {"o": stack.hidden}, spec.query_width)
        if isinstance(stack, Drafter) and stack.kind == "dflash":
            x = self.tensor(self.rows.features, stack.hidden)
            weight = self.tensor(2 * spec.kv_width, stack.hidden)
            self.ledger.enter("context kv", lambda: linear(x, weight), (x, weight))
        heads = self.tensor(1, tokens, spec.query_heads + spec.kv_heads, spec.head_dim)
        places = torch.arange(tokens)[None]
        self.ledger.enter("rotary", lambda: rotary(heads, places), heads)
        self.attend(spec)
        self.compact(spec)
        if group.ffn:
            self.feed_forward(("gate_up", "down"), stack.hidden, group.ffn)
        if group.experts:
            self.experts(stack.hidden, group.experts)

    def linear(self, name: str, parts: Mapping[str, int], columns: int) -> None:
        """A fused linear of *parts*, and the adapters of those that are targets."""
        x, weight = (
            self.tensor(self.rows.tokens, columns),
            self.tensor(sum(parts.values()), columns),
        )
        self.ledger.enter(name, lambda: linear(x, weight), (x, weight))
        if self.adapter is None:
            return
        outs = [out for part, out in parts.items() if part in self.adapter.targets]
        if outs:
            self.adapters(self.adapter.rank, outs, columns)

    def adapters(self, rank: int, outs: Sequence[int], columns: int) -> None:
        """Adapters of one fused linear over the tokens that are noise."""
        x, down = self.tensor(self.rows.adapter, columns), self.tensor(rank * len(outs), columns)
        base, ups = self.tensor(len(x), sum(outs)), [self.tensor(out, rank) for out in outs]
        # What lies between the two products is written by one and read by the other.
        narrow = linear(x, down)
        self.ledger.enter(
            "adapter",
            lambda: add_gated_lora(base, x, down, ups, torch.ones(len(x)), 2.0),
            (x, down, narrow, narrow, ups),
        )

    def attend(self, spec: Attention) -> None:
        """Every query over every key that its row's kernel reads, row by row."""
        for query, context in zip(self.rows.query, self.rows.context, strict=True):
            # The first query's window reaches back furthest.
            before = min(context, (spec.window_tokens or context + 1) - 1)
            q = self.tensor(1, query, spec.query_heads, spec.head_dim)
            # The cache is longer than what is visible.
            capacity = before + query + 3
            keys, values = (
                self.tensor(1, capacity, spec.kv_heads, spec.head_dim) for _ in range(2)
            )
            plan = prepare(
                whole(torch.tensor([before]), torch.tensor([query])),
                rows=1,
                queries=query,
                keys=capacity,
                query_heads=spec.query_heads,
                kv_heads=spec.kv_heads,
            )
            own = (keys[:, before : before + query], values[:, before : before + query])
            # Its own are taken from the projection and put into the cache.
            read = (q, keys[:, : before + query], values[:, : before + query], own, own)
            self.ledger.enter("attention", lambda: attention(q, keys, values, plan), read)  # noqa: B023 (called at once)

    def compact(self, spec: Attention) -> None:
        """The accepted path of a tree made contiguous: read, laid aside, read again, written."""
        moved = self.rows.moved
        for _ in ("keys", "values"):
            cache = self.tensor(1, moved + 2, spec.kv_heads, spec.head_dim)
            entries = cache[:, 1 : 1 + moved].clone()
            sources, target = torch.arange(1, moved + 1)[None], torch.tensor([0])

            def move() -> torch.Tensor:
                move_kv(cache, sources, target, torch.tensor([moved]))  # noqa: B023 (called at once)
                return cache[:, :moved]  # noqa: B023

            kept = self.ledger.enter("kv compaction", move, (entries, entries, entries))
            assert torch.equal(kept, entries)

    def feed_forward(self, names: tuple[str, str], hidden: int, ffn: int) -> None:
        """A SwiGLU of two linears called *names*."""
        self.linear(names[0], {"gate": ffn, "up": ffn}, hidden)
        gate_up = self.tensor(self.rows.tokens, 2 * ffn)
        self.ledger.enter("swiglu", lambda: swiglu(gate_up), gate_up)
        self.linear(names[1], {"down": hidden}, ffn)

    def experts(self, hidden: int, shape: Experts) -> None:
        """Router, routed and shared experts."""
        x, router = self.tensor(self.rows.tokens, hidden), self.tensor(shape.count, hidden)
        scores = self.ledger.enter("router", lambda: linear(x, router), (x, router))
        chosen, shares = route(scores, router_of(shape))
        weights = (
            self.tensor(shape.count, 2 * shape.ffn, hidden),
            self.tensor(shape.count, hidden, shape.ffn),
        )
        hit = torch.tensor(sorted(set(chosen.flatten().tolist())))
        self.experts_hit.append(len(hit))
        # Each visit reads the row of its token; what one kernel writes the next one reads.
        visits = x.repeat_interleave(shape.top_k, dim=0)
        gate_up = self.tensor(len(visits), 2 * shape.ffn)
        inner, outer = self.tensor(len(visits), shape.ffn), torch.empty_like(visits)
        between = (gate_up, gate_up, inner, inner, outer, outer, x)
        work = counted_flop(lambda: grouped_experts(x, chosen, shares, *weights))
        self.ledger.flop["experts"] += work
        self.ledger.bytes["experts"] += size_bytes((visits, [w[hit] for w in weights], between))
        if shape.shared:
            plain = KernelByKernel(self.rows, self.dtype, ledger=self.ledger)
            plain.feed_forward(("shared expert",) * 2, hidden, shape.shared * shape.ffn)


def router_of(shape: Experts) -> Router:
    """How the models with such experts route: LLaDA2's groups go with a sigmoid."""
    return Router(
        top_k=shape.top_k,
        score="sigmoid" if shape.groups > 1 else "softmax",
        groups=shape.groups,
        groups_used=shape.groups_used,
    )
