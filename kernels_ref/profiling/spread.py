"""Shapes to measure beside those of the models that are named, so that curves hold in between."""

from dataclasses import replace

from hwprofiles.kernel_shapes import ExpertsShape, KernelShapes
from kernels_ref.profiling.served import Served

# Decoders of a few million parameters, which a CPU decodes for real.
SMALL = KernelShapes(
    linears=frozenset({(192, 192), (576, 192), (1024, 192), (192, 512), (512, 512)}),
    heads=frozenset({(6, 6, 32), (8, 2, 32)}),
    experts=frozenset({ExpertsShape(hidden=192, ffn=128, top_k=2, count=8)}),
    vocabularies=frozenset({(4096, 192)}),
    widths=frozenset({192, 512}),
)
MIDDLE = KernelShapes(
    linears=frozenset({(1024, 1024), (3072, 1024), (1024, 3072), (2048, 2048), (4096, 4096)}),
    heads=frozenset({(16, 4, 64), (8, 1, 64)}),
    experts=frozenset({ExpertsShape(hidden=512, ffn=256, top_k=4, count=32)}),
    vocabularies=frozenset({(32768, 512)}),
    widths=frozenset({1024, 4096}),
)
# Of eight to seventy billion parameters, whole or divided among GPUs.
LARGE = KernelShapes(
    linears=frozenset(
        {(1024, 4096), (4096, 1024), (2048, 2048), (8192, 8192), (16384, 2048), (2048, 16384)}
    ),
    heads=frozenset({(32, 8, 128), (16, 2, 128), (64, 8, 128)}),
    experts=frozenset({ExpertsShape(hidden=4096, ffn=1024, top_k=8, count=64)}),
    vocabularies=frozenset({(65536, 4096)}),
    widths=frozenset({8192}),
)


def spread(device: str) -> Served:
    """What is measured on a *device*, cpu or cuda, whichever models are named."""
    if device == "cuda":
        return replace(
            Served.of(LARGE, level=1),
            precisions=("bf16", "fp8"),
            attention_backends=("flash", "cudnn", "flex"),
        )
    return replace(Served.of(SMALL) | Served.of(MIDDLE, level=1), precisions=("fp32", "bf16"))
