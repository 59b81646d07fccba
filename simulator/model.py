"""ModelSpec: the shape of a decoder, its drafters and adapters, and what follows from it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field, Strict

STRICT = ConfigDict(extra="forbid")
Count = Annotated[int, Strict(), Field(gt=0)]
Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Projection = Literal["q", "k", "v", "o", "gate", "up", "down"]

ELEMENT_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp8": 1.0}


@dataclass(frozen=True)
class Attention:
    """Grouped-query attention of one layer; *window_tokens* limits how far back a query sees."""

    __pydantic_config__ = STRICT

    query_heads: Count
    kv_heads: Count
    head_dim: Count
    qk_norm: bool = False
    bias: bool = False
    window_tokens: Count | None = None
    shared_key_value: bool = False
    """Keys and values are one projection (both are still cached)."""

    def __post_init__(self) -> None:
        """Raise ValueError unless every KV head serves as many query heads."""
        if self.query_heads % self.kv_heads:
            msg = f"kv_heads must divide query_heads, got {self.kv_heads} and {self.query_heads}"
            raise ValueError(msg)

    @property
    def query_width(self) -> int:
        """Columns of the query projection."""
        return self.query_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Columns of the key projection, and of the value projection."""
        return self.kv_heads * self.head_dim

    @property
    def projected_width(self) -> int:
        """Columns of the fused query, key and value projection."""
        return self.query_width + self.kv_width * (1 if self.shared_key_value else 2)


@dataclass(frozen=True)
class Experts:
    """A mixture-of-experts layer: *top_k* of *count* routed experts, each a SwiGLU *ffn* wide."""

    __pydantic_config__ = STRICT

    count: Count
    top_k: Count
    ffn: Count
    shared: Annotated[int, Strict(), Field(ge=0)] = 0
    """Shared experts, each *ffn* wide, that every token visits."""
    groups: Count = 1
    groups_used: Count = 1

    def __post_init__(self) -> None:
        """Raise ValueError when a token would visit more experts than there are."""
        if self.top_k > self.count:
            msg = f"top_k must be at most the count of experts, got {self.top_k} of {self.count}"
            raise ValueError(msg)


@dataclass(frozen=True)
class LayerGroup:
    """*count* equal layers: attention, then a dense SwiGLU *ffn* wide, experts, or both."""

    __pydantic_config__ = STRICT

    count: Count
    attention: Attention
    ffn: Count | None = None
    experts: Experts | None = None


@dataclass(frozen=True)
class Adapter:
    """Low-rank weights beside the *targets* projections of every layer of a model."""

    __pydantic_config__ = STRICT

    rank: Count
    targets: tuple[Projection, ...]
    source: str
    alpha: Positive | None = None
    published_parameters: Positive | None = None


@dataclass(frozen=True)
class Stack:
    """Decoder layers with an LM head: a model, or a drafter that lives beside one."""

    __pydantic_config__ = STRICT

    hidden: Count
    vocab: Count
    """Columns of the LM head."""
    layers: Annotated[tuple[LayerGroup, ...], Field(min_length=1)]
    source: str

    @property
    def lm_head_parameters(self) -> int:
        """Parameters of the LM head, whether its own or shared."""
        return self.hidden * self.vocab

    def linear_shapes(self, group: LayerGroup) -> Iterator[tuple[Projection, int, int]]:
        """(projection, output columns, input columns) of the dense linears of one layer."""
        attention = group.attention
        width = getattr(self, "attention_input", None) or self.hidden
        yield "q", attention.query_width, width
        yield "k", attention.kv_width, width
        if not attention.shared_key_value:
            yield "v", attention.kv_width, width
        yield "o", self.hidden, attention.query_width
        if group.ffn:
            yield "gate", group.ffn, self.hidden
            yield "up", group.ffn, self.hidden
            yield "down", self.hidden, group.ffn

    def layer_parameters(self, group: LayerGroup) -> int:
        """Weights of one layer of *group*; norms and biases (under 0.1 %) are left out."""
        dense = sum(n * k for _, n, k in self.linear_shapes(group))
        if group.experts is None:
            return dense
        experts = group.experts
        expert = 3 * self.hidden * experts.ffn
        return dense + expert * (experts.count + experts.shared) + self.hidden * experts.count

    @property
    def body_parameters(self) -> int:
        """Weights of all layers, without embedding and LM head."""
        return sum(group.count * self.layer_parameters(group) for group in self.layers)

    def kv_bytes_per_token(self, element_bytes: float) -> float:
        """Bytes that one more token adds to the cache while no window is full."""
        return sum(g.count * 2 * g.attention.kv_width * element_bytes for g in self.layers)

    def kv_bytes(self, tokens: npt.ArrayLike, element_bytes: float) -> Any:  # noqa: ANN401 (of the shape of *tokens*)
        """Bytes of cache for a sequence of *tokens*; a windowed layer keeps its window only."""
        return sum(
            g.count
            * 2
            * g.attention.kv_width
            * element_bytes
            * np.minimum(tokens, g.attention.window_tokens or tokens)
            for g in self.layers
        )


@dataclass(frozen=True)
class Drafter(Stack):
    """A small model that drafts for a bigger one (EAGLE-3, DFlash)."""

    __pydantic_config__ = STRICT

    kind: Literal["eagle3", "dflash"] = "eagle3"
    attention_input: Count | None = None
    """Width that q, k and v read, when it is not *hidden* (EAGLE-3 reads two features)."""
    fusion_input: Count | None = None
    """Width of the concatenated target features that one linear maps to *hidden*."""
    shares_lm_head: bool = False
    block: Count | None = None
    """Largest block the drafter was trained for."""
    published_parameters: Positive | None = None

    @property
    def parameters(self) -> int:
        """Weights that the drafter adds to its target's, a shared LM head left out."""
        own_head = 0 if self.shares_lm_head else self.lm_head_parameters
        return self.body_parameters + own_head + (self.fusion_input or 0) * self.hidden


@dataclass(frozen=True)
class ModelSpec(Stack):
    """A decoder as it is served, with the adapters and drafters that belong to it."""

    __pydantic_config__ = STRICT

    name: str = ""
    tied_embedding: bool = False
    max_context_tokens: Count = 32768
    published_parameters: Positive | None = None
    published_active_parameters: Positive | None = None
    parameters_note: str = ""
    default_block: Count = 32
    adapters: dict[str, Adapter] = field(default_factory=dict)
    drafters: dict[str, Drafter] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        """Weights of layers, embedding and LM head, without adapters and drafters."""
        matrices = 1 if self.tied_embedding else 2
        return self.body_parameters + matrices * self.lm_head_parameters

    @property
    def active_parameters(self) -> int:
        """Weights that one token touches, LM head included, embedding look-up left out."""
        idle = sum(
            g.count * 3 * self.hidden * g.experts.ffn * (g.experts.count - g.experts.top_k)
            for g in self.layers
            if g.experts
        )
        return self.body_parameters - idle + self.lm_head_parameters

    def adapter_parameters(self, adapter: Adapter) -> int:
        """Weights of *adapter*: rank x (input + output columns) for every target and layer."""
        return sum(
            g.count * adapter.rank * (n + k)
            for g in self.layers
            for projection, n, k in self.linear_shapes(g)
            if projection in adapter.targets
        )
