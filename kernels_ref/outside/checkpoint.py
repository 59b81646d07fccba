"""A checkpoint from outside: a folder in Hugging Face format as a model that answers queries.

Only config.json and safetensors are read. No code of the folder is run.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch

from kernels_ref.decoding.query import Model, ModelFacts
from kernels_ref.decoding.reference import ReferenceModel
from kernels_ref.outside.error import OutsideError
from kernels_ref.outside.family import Family, family_of
from kernels_ref.outside.folder import (
    CONFIG_FILE,
    open_tensors,
    read_config,
    sha256_of,
    weights_files,
)
from kernels_ref.outside.shifted import Shifted
from kernels_ref.outside.sizes import Sizes, pass_shape, read_sizes
from kernels_ref.outside.weights import read_weights
from kernels_ref.passes import Decoder


class OutsideModel(NamedTuple):
    """A model, what its family says of it, and which weights it has."""

    model: Model
    family: Family
    sha256: str
    """Of the bytes of its safetensors files in the order of their names."""


def outside_model(
    folder: Path, *, family: str | None = None, dtype: torch.dtype = torch.float32
) -> OutsideModel:
    """The model in *folder*, its weights in *dtype*; *family* overrules config.json.

    Weights that are already in *dtype* and need no rearranging stay mapped from the files; all
    others are copied once. Raises OutsideError for what is missing, unknown or does not fit.
    """
    facts = family_of(folder, family)
    return model_of(folder, facts, dtype=dtype)


def model_of(folder: Path, family: Family, *, dtype: torch.dtype = torch.float32) -> OutsideModel:
    """The model in *folder* read as *family* says; errors as `outside_model`."""
    config = read_config(folder)
    sizes = read_sizes(folder, config, family)
    shape = pass_shape(folder / CONFIG_FILE, sizes)
    with open_tensors(folder) as tensors:
        weights = read_weights(tensors, shape, family, dtype=dtype)
    facts = ModelFacts(
        mask_token=sizes.mask_token,
        end_tokens=_end_tokens(folder, config, sizes, family),
        block_tokens=sizes.block_tokens,
        context_tokens=sizes.context_tokens,
        vocab=sizes.vocab,
    )
    inner = ReferenceModel(Decoder(shape, weights), facts)
    model: Model = Shifted(inner) if family.logit_shift else inner
    return OutsideModel(model, family, sha256_of(weights_files(folder)))


def _end_tokens(
    folder: Path, config: dict[str, Any], sizes: Sizes, family: Family
) -> tuple[int, ...]:
    """The config's end tokens and the family's, those that the vocabulary has."""
    said = config.get("eos_token_id")
    own = said if isinstance(said, list) else [said]
    tokens = {token for token in (*own, *family.end_tokens) if isinstance(token, int)}
    known = tuple(sorted(token for token in tokens if 0 <= token < sizes.vocab))
    if not known:
        rule = f"an end token is one of the vocabulary of {sizes.vocab}, got {sorted(tokens)}"
        raise OutsideError(folder / CONFIG_FILE, rule)
    return known
