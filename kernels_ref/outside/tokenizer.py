"""The tokenizer of a folder: text to the tokens that its model knows."""

import importlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from kernels_ref.outside.error import OutsideError
from kernels_ref.outside.folder import read_json

TOKENIZER_FILE: Final = "tokenizer.json"


def tokenizer(folder: Path) -> Callable[[str], Sequence[int]]:
    """Text to tokens by tokenizer.json in *folder*, which is read when the first text comes.

    Text is split as it stands: a chat template, and the special tokens in it, are the user's to
    write. The first text raises OutsideError where there is no tokenizer.json, it is none, or the
    package tokenizers is not installed.
    """

    @cache
    def loaded() -> Any:  # noqa: ANN401 (of a package that may be absent)
        return _loaded(folder)

    def encode(text: str) -> Sequence[int]:
        return list(loaded().encode(text, add_special_tokens=False).ids)

    return encode


def _loaded(folder: Path) -> Any:  # noqa: ANN401 (of a package that may be absent)
    path = folder / TOKENIZER_FILE
    if not path.is_file():
        raise OutsideError(folder, f"prompts of text need a {TOKENIZER_FILE} there, found none")
    if importlib.util.find_spec("tokenizers") is None:
        rule = "prompts of text need the package tokenizers: pip install 'blockcast[hugging-face]'"
        raise OutsideError(path, rule)
    document = read_json(path)
    if "model" not in document:
        raise OutsideError(path, "a tokenizer has a model, found none")
    return importlib.import_module("tokenizers").Tokenizer.from_str(json.dumps(document))
