"""Text becomes the tokens of the folder's own tokenizer."""

import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from kernels_ref.outside import OutsideError, tokenizer

TOKENIZER = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
        {
            "id": 3,
            "content": "<end>",
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
    ],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {
        "type": "WordLevel",
        "vocab": {"one": 0, "two": 1, "?": 2, "<end>": 3},
        "unk_token": "?",
    },
}


def test_text_is_split_as_the_file_says(tmp_path: Path) -> None:
    """Words, unknown ones, and special tokens written out in the text."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER), encoding="utf-8")

    assert list(tokenizer(tmp_path)("two one<end>three")) == [1, 0, 3, 2]


def test_tokens_need_no_tokenizer(tmp_path: Path) -> None:
    """A folder without one is refused when the first text comes, and not before."""
    encode = tokenizer(tmp_path)

    with pytest.raises(OutsideError, match=r"need a tokenizer\.json there, found none"):
        encode("one")


@pytest.mark.parametrize(("text", "rule"), [("{", "not JSON"), ("{}", "a tokenizer has a model")])
def test_a_file_that_is_no_tokenizer_is_refused(text: str, rule: str, tmp_path: Path) -> None:
    """The error names the file."""
    file = tmp_path / "tokenizer.json"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(OutsideError, match=rule) as refused:
        tokenizer(tmp_path)("one")
    assert refused.value.path == file


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tokenizers is not installed the error says what to install."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER), encoding="utf-8")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(OutsideError, match=r"pip install 'blockcast\[hugging-face\]'"):
        tokenizer(tmp_path)("one")
