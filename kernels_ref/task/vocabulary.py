"""The words of the task and their token numbers; a number from 0 to 9 is one token."""

from collections.abc import Iterable, Sequence
from typing import Final

MASK: Final = 0
END: Final = 1
BEGIN: Final = 2

LARGEST_NUMBER: Final = 9
SHE: Final = ("anna", "mia", "lucy", "ella", "nora", "ruth", "jane", "iris")
HE: Final = ("tom", "ben", "sam", "leo", "max", "paul", "omar", "finn")
NAMES: Final = SHE + HE
ITEMS: Final = (
    "books", "coins", "pens", "cards", "shells", "stones", "apples", "eggs",
    "stamps", "cups", "keys", "balls", "hats", "plums", "nuts", "rings",
)  # fmt: skip
GAINS: Final = ("finds", "buys", "wins", "makes")
LOSSES: Final = ("loses", "sells", "drops", "hides")

_OTHER_WORDS: Final = (
    ".", ",", ":", "?", "+", "-", "=", "has", "have", "she", "he", "her", "him", "then", "gives",
    "gets", "more", "of", "them", "doubles", "the", "number", "how", "many", "does", "now",
    "starts", "with", "at", "first", "there", "are", "so", "this", "after", "that", "count",
    "goes", "from", "to", "since", "we", "get", "left", "answer", "is", "therefore", "in", "end",
    "and", "begin", "again", "as",
)  # fmt: skip
NUMBERS: Final = tuple(str(number) for number in range(LARGEST_NUMBER + 1))
WORDS: Final = (
    "<mask>", "<end>", "<begin>", *NUMBERS, *NAMES, *ITEMS, *GAINS, *LOSSES, *_OTHER_WORDS,
)  # fmt: skip
FIRST_NUMBER: Final = 3
"""Token of the number 0; the others follow."""
TOKENS: Final = {word: token for token, word in enumerate(WORDS)}


def encode(words: Iterable[str]) -> list[int]:
    """Tokens of *words*; raises KeyError for a word that the task does not have."""
    return [TOKENS[word] for word in words]


def decode(tokens: Sequence[int]) -> list[str]:
    """Words of *tokens*."""
    return [WORDS[token] for token in tokens]


def encode_text(text: str) -> list[int]:
    """Tokens of a question, words with spaces between them, the begin token first.

    Raises ValueError for no words, and naming every word the task does not have.
    """
    words = text.split()
    if not words:
        rule = "a question has at least one word, got none"
        raise ValueError(rule)
    unknown = sorted({word for word in words if word not in TOKENS})
    if unknown:
        rule = (
            f"the task has no words {' '.join(unknown)}; it has {len(WORDS)}, in lower case, with "
            "spaces around every sign: anna has 4 books . she finds 3 more ."
        )
        raise ValueError(rule)
    return [BEGIN, *encode(words)]
