"""What a profile will be asked about: the shapes of models, and the sizes that policies make."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hwprofiles.kernel_shapes import ExpertsShape, KernelShapes
from kernels_ref.profiling.point import DataType

Key = TypeVar("Key")

# Tokens of a forward: every count up to 64, since blocks and batches make them all, then coarser.
FIRST_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
NEXT_TOKENS = (3, 5, 6, 7, 9, 12, 15, 17, 20, 24, 28, 33, 40, 48, 56, 61, 80, 96, 160, 192, 512)
COARSE_TOKENS = (72, 112, 144, 224, 320, 384, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)


@dataclass(frozen=True)
class Served:
    """Shapes to measure, with the level at which each becomes important (0 first)."""

    linears: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(outputs, inputs) of a product."""
    heads: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    """(query heads, KV heads, head size) of an attention."""
    experts: Mapping[ExpertsShape, int] = field(default_factory=dict)
    vocabularies: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(entries, hidden) of an LM head."""
    widths: Mapping[int, int] = field(default_factory=dict)
    """Hidden sizes and feed-forward widths that row kernels run over."""
    precisions: tuple[DataType, ...] = ("bf16",)
    attention_backends: tuple[str, ...] = ("sdpa",)
    most_tokens: int = 8192
    """Of a forward."""
    most_prefix_tokens: int = 32768
    most_sequences: int = 256

    @classmethod
    def of(cls, shapes: KernelShapes, level: int = 0) -> "Served":
        """Every one of *shapes*, important at *level*."""
        return cls(
            linears=dict.fromkeys(sorted(shapes.linears), level),
            heads=dict.fromkeys(sorted(shapes.heads), level),
            experts=dict.fromkeys(shapes.experts, level),
            vocabularies=dict.fromkeys(sorted(shapes.vocabularies), level),
            widths=dict.fromkeys(sorted(shapes.widths), level),
        )

    def __or__(self, other: "Served") -> "Served":
        """Both, each shape at the earlier of its levels; limits and precisions are the first's."""
        return Served(
            linears=_earlier(self.linears, other.linears),
            heads=_earlier(self.heads, other.heads),
            experts=_earlier(self.experts, other.experts),
            vocabularies=_earlier(self.vocabularies, other.vocabularies),
            widths=_earlier(self.widths, other.widths),
            precisions=self.precisions,
            attention_backends=self.attention_backends,
            most_tokens=self.most_tokens,
            most_prefix_tokens=self.most_prefix_tokens,
            most_sequences=self.most_sequences,
        )

    def tokens(self) -> Iterator[tuple[int, int]]:
        """(tokens, level) of every count of tokens to measure."""
        yield from leveled(
            (FIRST_TOKENS, NEXT_TOKENS, (*range(1, 65), *COARSE_TOKENS)), self.most_tokens
        )


def leveled(levels: Iterable[Iterable[int]], most: int) -> Iterator[tuple[int, int]]:
    """(value, level) of each value up to *most*, once, at the first level that has it."""
    seen: set[int] = set()
    for level, values in enumerate(levels):
        for value in values:
            if value not in seen and value <= most:
                seen.add(value)
                yield value, level


def _earlier(first: Mapping[Key, int], second: Mapping[Key, int]) -> dict[Key, int]:
    levels = dict(first)
    for key, level in second.items():
        levels[key] = min(level, levels.get(key, level))
    return levels
