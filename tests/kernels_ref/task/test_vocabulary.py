"""Words and tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels_ref.task.vocabulary import (
    BEGIN,
    END,
    FIRST_NUMBER,
    MASK,
    NAMES,
    TOKENS,
    WORDS,
    decode,
    encode,
    encode_text,
)


def test_every_word_has_one_token() -> None:
    """No word is there twice, and marks and numbers are where others count on them."""
    assert len(set(WORDS)) == len(WORDS) == len(TOKENS)
    assert [WORDS[token] for token in (MASK, END, BEGIN)] == ["<mask>", "<end>", "<begin>"]
    assert [WORDS[FIRST_NUMBER + number] for number in range(10)] == list("0123456789")
    assert len(set(NAMES)) == 16


def test_a_token_is_a_byte() -> None:
    """The held-out split is a hash of the tokens as bytes."""
    assert len(WORDS) <= 256


@given(tokens=st.lists(st.integers(0, len(WORDS) - 1), min_size=1, max_size=20))
def test_decoding_undoes_encoding(tokens: list[int]) -> None:
    """Tokens to words to tokens; text is a question and has the begin token before it."""
    words = decode(tokens)
    assert encode(words) == tokens
    assert encode_text("  ".join(words)) == [BEGIN, *tokens]


def test_text_with_unknown_words_names_each() -> None:
    """All of them, once, in order, and none of the known ones."""
    with pytest.raises(ValueError, match="the task has no words") as refused:
        encode_text("anna has zebras and zebras and books quickly")
    told, _, _ = str(refused.value).partition(";")
    assert told.endswith("quickly zebras")
    assert "anna" not in told
