"""The shape of a decoder stack: what a forward pass needs to know to be laid out."""

from dataclasses import dataclass

from kernels_ref.kernels.moe import Router


@dataclass(frozen=True)
class ExpertShape:
    """*count* routed experts, each a SwiGLU *ffn* wide, and *shared* that every token visits."""

    count: int
    ffn: int
    router: Router
    shared: int = 0
    biased: bool = False
    """A learned bias for each expert shifts the router's choice, and not the weights."""


@dataclass(frozen=True)
class LayerShape:
    """*count* equal layers: attention, then a dense SwiGLU *ffn* wide, experts, or both summed."""

    count: int
    query_heads: int
    kv_heads: int
    head_dim: int
    ffn: int | None = None
    experts: ExpertShape | None = None
    window_tokens: int | None = None
    """How far back a query sees, for whoever prepares the attention of this layer."""
    qk_norm: bool = False
    shared_key_value: bool = False
    """Keys and values are one projection; both are cached."""

    def __post_init__(self) -> None:
        """Refuse a window in which a query does not see itself."""
        if self.window_tokens is not None and self.window_tokens < 1:
            rule = f"window_tokens is at least 1, got {self.window_tokens}"
            raise ValueError(rule)

    @property
    def query_columns(self) -> int:
        """Columns of the query projection."""
        return self.query_heads * self.head_dim

    @property
    def kv_columns(self) -> int:
        """Columns of the key projection, and of the value projection where it has its own."""
        return self.kv_heads * self.head_dim

    @property
    def projected_columns(self) -> tuple[int, ...]:
        """Columns of each projection in the fused one: query, key, value."""
        values = () if self.shared_key_value else (self.kv_columns,)
        return (self.query_columns, self.kv_columns, *values)


@dataclass(frozen=True)
class PassShape:
    """Layers of one width between an embedding and an LM head."""

    hidden: int
    vocab: int
    layers: tuple[LayerShape, ...]
    adapter_rank: int | None = None
    """Rank of the gated adapters beside every dense projection, where there are any."""
    adapter_scaling: float = 2.0
    rotary_theta: float = 1e6
    rotary_dim: int | None = None
    """Dimensions of a head that positions turn: the first ones, or all when absent."""
    tied: bool = False
    """Embedding and LM head are one matrix."""

    @property
    def unrolled(self) -> tuple[tuple[int, LayerShape], ...]:
        """Every single layer in order, with its place in *layers*."""
        return tuple((i, s) for i, s in enumerate(self.layers) for _ in range(s.count))
