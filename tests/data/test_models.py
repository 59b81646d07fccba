"""The shipped model shapes against figures from outside this project."""

from pathlib import Path

import pytest

import simulator
from simulator.documents import check, load
from simulator.model import ModelSpec

FOLDER = Path(simulator.__file__).parent / "models"
FILES = sorted(FOLDER.glob("*.yaml"))
BF16_BYTES = 2.0

# Keys and values of one token over all layers, from each model's public config: 2 (K and V) x
# layers x KV heads x head dim x 2 bytes. DiffusionGemma: 25 sliding layers + 5 full ones.
KV_BYTES_PER_TOKEN = {
    "diffusiongemma-26b-a4b": 204_800 + 20_480,
    "dream-7b": 57_344,
    "fast-dllm-v2-7b": 57_344,
    "llada-8b": 524_288,
    "llada2-flash": 65_536,
    "llada2-mini": 40_960,
    "llama-3-70b": 327_680,
    "llama-3-8b": 131_072,
    "nemotron-labs-diffusion-14b": 163_840,
    "qwen3-32b": 262_144,
    "qwen3-8b": 147_456,
    "sdar-8b": 147_456,
    "uno-8b": 147_456,
}


def model(name: str) -> ModelSpec:
    """The shipped model called *name*."""
    return load(ModelSpec, FOLDER / f"{name}.yaml")


def test_the_folder_holds_the_models_of_the_table() -> None:
    """No shipped model goes without a check of its cache size, and none is missing."""
    assert [path.stem for path in FILES] == sorted(KV_BYTES_PER_TOKEN)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_model_is_called_like_its_file(path: Path) -> None:
    """Every file loads strictly, says where it was read, and is found by its name."""
    spec = load(ModelSpec, path)
    assert spec.name == path.stem
    assert spec.source
    assert spec.parameters_note


@pytest.mark.parametrize("name", KV_BYTES_PER_TOKEN)
def test_parameters_follow_from_the_shape(name: str) -> None:
    """The shape gives the parameter counts that were published, within 0.5 %."""
    spec = model(name)
    assert spec.published_parameters is not None
    assert spec.parameters == pytest.approx(spec.published_parameters, rel=0.005)
    if spec.published_active_parameters is not None:
        assert spec.active_parameters == pytest.approx(spec.published_active_parameters, rel=0.005)


# Model cards and papers, rounded as printed there: total parameters in units of 1e9.
PRINTED_BILLIONS = {
    "llada2-mini": (16, 0.5),
    "llama-3-70b": (70.6, 0.05),
    "llama-3-8b": (8.03, 0.005),
    "qwen3-32b": (32.8, 0.05),
    "qwen3-8b": (8.2, 0.05),
    "uno-8b": (6.95 + 2.05, 0.01),
}


@pytest.mark.parametrize(("name", "printed"), PRINTED_BILLIONS.items())
def test_parameters_round_to_the_printed_figure(name: str, printed: tuple[float, float]) -> None:
    """The count from the shape is the printed one, to the digits printed."""
    billions, rounding = printed
    assert model(name).parameters / 1e9 == pytest.approx(billions, abs=rounding)


@pytest.mark.parametrize(("name", "expected"), KV_BYTES_PER_TOKEN.items())
def test_cache_bytes_per_token(name: str, expected: int) -> None:
    """A token takes this many bytes of bf16 cache."""
    assert model(name).kv_bytes_per_token(BF16_BYTES) == expected


def test_a_sliding_window_bounds_the_cache() -> None:
    """DiffusionGemma: past 1024 tokens only its 5 full layers keep on growing."""
    spec = model("diffusiongemma-26b-a4b")
    growth = spec.kv_bytes(5000, BF16_BYTES) - spec.kv_bytes(4999, BF16_BYTES)
    assert growth == 20_480


@pytest.mark.parametrize(
    ("name", "adapter", "billions"),
    [
        ("qwen3-8b", "uno", 0.3492),  # Uno paper, C.6.1: 349 M
        ("uno-8b", "uno", 0.3492),
        ("nemotron-labs-diffusion-14b", "draft", 0.0472),
    ],
)
def test_adapter_parameters(name: str, adapter: str, billions: float) -> None:
    """Rank and targets give the published size of the adapter."""
    spec = model(name)
    weights = spec.adapter_parameters(spec.adapters[adapter])
    assert weights / 1e9 == pytest.approx(billions, abs=5e-5)
    assert weights == pytest.approx(spec.adapters[adapter].published_parameters, rel=0.005)


@pytest.mark.parametrize(
    ("drafter", "billions", "kv_bytes"),
    [("eagle3", 0.3995, 4096), ("dflash", 1.0486, 20_480)],  # Uno paper, 5.2.1: 0.40 and 1.05 B
)
def test_drafter_parameters(drafter: str, billions: float, kv_bytes: int) -> None:
    """The shape of a drafter gives its published size, and the cache it keeps of a token."""
    spec = model("qwen3-8b").drafters[drafter]
    assert spec.parameters / 1e9 == pytest.approx(billions, abs=5e-5)
    assert spec.parameters == pytest.approx(spec.published_parameters, rel=0.005)
    assert spec.kv_bytes_per_token(BF16_BYTES) == kv_bytes


def test_a_dense_model_counted_by_hand() -> None:
    """Qwen3-8B, matrix by matrix."""
    queries_and_output = 2 * 4096 * 4096
    keys_and_values = 2 * 4096 * 1024
    feed_forward = 3 * 4096 * 12288
    body = 36 * (queries_and_output + keys_and_values + feed_forward)
    spec = model("qwen3-8b")
    assert body == 6_945_767_424  # 6.95 B without embeddings, as the model card says
    assert spec.body_parameters == body
    assert spec.parameters == body + 2 * 151_936 * 4096
    assert spec.active_parameters == body + 151_936 * 4096


def test_a_mixture_of_experts_counted_by_hand() -> None:
    """LLaDA2-mini, matrix by matrix: one dense layer, then 19 with 256 + 1 experts."""
    attention = 2 * 2048 * 2048 + 2 * 2048 * 512
    expert = 3 * 2048 * 512
    router = 2048 * 256
    vocabulary = 157_184 * 2048
    dense_layer = attention + 3 * 2048 * 5120
    body = dense_layer + 19 * (attention + router + 257 * expert)
    touched = dense_layer + 19 * (attention + router + 9 * expert)
    spec = model("llada2-mini")
    assert spec.parameters == body + 2 * vocabulary
    assert spec.active_parameters == touched + vocabulary


@pytest.mark.parametrize(
    ("layer", "word"),
    [
        ({"attention": {"query_heads": 32, "kv_heads": 7, "head_dim": 128}}, "kv_heads"),
        (
            {
                "attention": {"query_heads": 32, "kv_heads": 8, "head_dim": 128},
                "experts": {"count": 8, "top_k": 9, "ffn": 64},
            },
            "top_k",
        ),
        (None, "at least 1 item"),
    ],
)
def test_impossible_shapes_are_refused(layer: dict[str, object] | None, word: str) -> None:
    """Heads that do not share evenly, more experts a token than there are, no layer at all."""
    layers = [] if layer is None else [{"count": 2, **layer}]
    shape = {"name": "m", "hidden": 4096, "vocab": 1000, "source": "me", "layers": layers}
    value, mistakes = check(ModelSpec, shape)
    assert value is None
    assert len(mistakes) == 1
    assert word in str(mistakes[0])
