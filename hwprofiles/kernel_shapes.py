"""The shapes that a model gives to kernels: what a measurement must cover to price it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ExpertsShape:
    """The routed experts of a layer: *count* of width *ffn*, *top_k* for each token."""

    hidden: int
    ffn: int
    top_k: int
    count: int


@dataclass(frozen=True)
class KernelShapes:
    """Shapes of each kind of kernel, without repeats."""

    linears: frozenset[tuple[int, int]] = frozenset()
    """(outputs, inputs) of dense products."""
    heads: frozenset[tuple[int, int, int]] = frozenset()
    """(query heads, KV heads, head size) of attention."""
    experts: frozenset[ExpertsShape] = frozenset()
    vocabularies: frozenset[tuple[int, int]] = frozenset()
    """(entries, hidden) of LM heads."""
    widths: frozenset[int] = frozenset()
    """Hidden sizes and feed-forward widths that row kernels run over."""

    def __or__(self, other: "KernelShapes") -> "KernelShapes":
        """The shapes of both."""
        return KernelShapes(
            linears=self.linears | other.linears,
            heads=self.heads | other.heads,
            experts=self.experts | other.experts,
            vocabularies=self.vocabularies | other.vocabularies,
            widths=self.widths | other.widths,
        )
