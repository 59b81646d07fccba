"""The files of a checkpoint's folder: its config, and its tensors by name, mapped and not read."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open

from kernels_ref.outside.error import OutsideError

CONFIG_FILE: Final = "config.json"
WEIGHTS_FILE: Final = "model.safetensors"
INDEX_FILE: Final = "model.safetensors.index.json"
PICKLED: Final = (".bin", ".pt", ".pth", ".ckpt")
CHUNK_BYTES: Final = 1 << 20


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object at *path*; raises OutsideError where there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OutsideError(path, f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise OutsideError(path, f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise OutsideError(path, f"a JSON object, got {type(value).__name__}")
    return value


def read_config(folder: Path) -> dict[str, Any]:
    """What config.json in *folder* says; no code that it points to is ever run.

    Raises OutsideError where there is none.
    """
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise OutsideError(folder, f"a checkpoint's folder has a {CONFIG_FILE}, found none")
    return read_json(path)


def weights_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of *folder* in the order of their names: one, or an index's shards.

    Raises OutsideError where there is none, or an index names a file that is not there.
    """
    if (folder / INDEX_FILE).is_file():
        return _shards(folder)
    if (folder / WEIGHTS_FILE).is_file():
        return (folder / WEIGHTS_FILE,)
    pickled = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLED)
    if pickled:
        rule = (
            f"weights are safetensors; {pickled[0]} is pickled, which can run code when it is "
            "read: convert it where you trust it"
        )
        raise OutsideError(folder, rule)
    raise OutsideError(folder, f"weights are {WEIGHTS_FILE} or {INDEX_FILE}, found neither")


def _shards(folder: Path) -> tuple[Path, ...]:
    index = folder / INDEX_FILE
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise OutsideError(index, "an index has a weight_map from tensors to files")
    names = sorted({str(name) for name in places.values()})
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise OutsideError(index, f"a shard is a safetensors file beside it, got {name}")
        if not (folder / name).is_file():
            raise OutsideError(folder / name, f"not found, but {INDEX_FILE} names it")
    return tuple(folder / name for name in names)


def sha256_of(files: tuple[Path, ...]) -> str:
    """SHA-256 of the bytes of *files*, one after another; of one file, the file's own."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True)
class Tensors:
    """The tensors of a folder's weights; reading one maps it and copies nothing."""

    folder: Path
    sizes: Mapping[str, list[int]]
    """Of every tensor by its name."""
    _files: Mapping[str, Any]

    def __getitem__(self, name: str) -> torch.Tensor:
        """The tensor of this name in the dtype of the file."""
        tensor: torch.Tensor = self._files[name].get_tensor(name)
        return tensor


@contextmanager
def open_tensors(folder: Path) -> Iterator[Tensors]:
    """The tensors in *folder*; those that were taken outlive the context.

    Raises OutsideError as `weights_files` does, and for a file that is not safetensors.
    """
    sizes: dict[str, list[int]] = {}
    files: dict[str, Any] = {}
    with ExitStack() as stack:
        for path in weights_files(folder):
            try:
                file: Any = stack.enter_context(safe_open(path, framework="pt"))
            except SafetensorError as error:
                raise OutsideError(path, f"not safetensors: {error}") from error
            for name in file.keys():  # noqa: SIM118 (it has no iterator)
                sizes[name] = file.get_slice(name).get_shape()
                files[name] = file
        yield Tensors(folder, sizes, files)
