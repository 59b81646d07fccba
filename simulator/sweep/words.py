"""Words: a constraint as people write it, put into the grammar of a Python expression.

A word is a field, by its dotted name or its last part where no other has that, or else a text, so
that names with hyphens need no quotes. `A if B` without an else holds where B does not.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from simulator.scenario_fields import ScenarioFields

MOST_CHARACTERS: Final = 1000
KEYWORDS: Final = {
    **{word: word for word in ("and", "or", "not", "in", "if", "else")},
    **dict.fromkeys(("true", "True"), "True"),
    **dict.fromkeys(("false", "False"), "False"),
    **dict.fromkeys(("null", "None"), "None"),
}
INSTEAD: Final = {"=": "==", "&": "and", "&&": "and", "|": "or", "||": "or", "!": "not"}
"""What to write for an operator of other languages."""
FIELD: Final = "field_"
"""Begins the name of a field in the Python expression; its number follows."""
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<text>'[^'\\\n]*'|"[^"\\\n]*")
      | (?P<word>[A-Za-z_]\w*(?:[.-]\w+)*)
      | (?P<instead>=(?!=)|&&?|\|\|?|!(?!=))
      | (?P<operator>==|!=|<=|>=|//|<|>|\+|-|\*(?!\*)|/|%|,)
      | (?P<open>[(\[])
      | (?P<close>[)\]])""",
    re.VERBOSE,
)


class ConstraintError(ValueError):
    """A constraint is wrong, at a place of its text where that is known."""

    def __init__(self, what: str, place: int | None = None) -> None:
        """*place* counts characters from 0."""
        at = "" if place is None else f"at character {place + 1}: "
        super().__init__(f"{at}{what}")


@dataclass
class Translation:
    """A constraint in Python's grammar, and where each part of it comes from."""

    python: str = ""
    fields: list[str] = field(default_factory=list)
    """The dotted fields that it names, by their number."""
    _starts: list[int] = field(default_factory=list)
    _places: list[int] = field(default_factory=list)

    def put(self, python: str, place: int) -> None:
        """Add a part that comes from *place* of the text."""
        self._starts.append(len(self.python))
        self._places.append(place)
        self.python += python

    def name(self, dotted: str) -> str:
        """What the field is called in Python."""
        if dotted not in self.fields:
            self.fields.append(dotted)
        return f"{FIELD}{self.fields.index(dotted)}"

    def place(self, offset: int) -> int:
        """Where in the text the part at *offset* of the Python expression comes from."""
        return self._places[max(0, bisect_right(self._starts, offset) - 1)] if self._places else 0


def translated(text: str, known_fields: ScenarioFields, names: frozenset[str]) -> Translation:
    """*text* in Python's grammar; *names* are those of policies and the like.

    Raises ConstraintError for what is no token, and for a word that is a field and a name.
    """
    if len(text) > MOST_CHARACTERS:
        message = f"a constraint has at most {MOST_CHARACTERS} characters, got {len(text)}"
        raise ConstraintError(message)
    made = Translation()
    conditions = _OpenConditions()
    is_beside_text = False
    for token in _tokens(text):
        kind, word, place = token.lastgroup, token.group(), token.start()
        if kind == "close":
            made.put(conditions.close(), place)
        elif kind == "open":
            conditions.open()
        if kind == "word":
            conditions.see(word)
            word = _in_python(word, place, made, known_fields, names)
        if kind == "space":
            continue
        is_text = word[0] in "'\""
        if is_text and is_beside_text:
            message = f"two texts side by side; put one with spaces in quotes: {word}"
            raise ConstraintError(message, place)
        is_beside_text = is_text
        made.put(f" {word}", place)
    made.put(conditions.close(), len(text))
    return made


class _OpenConditions:
    """How many `if` of each open bracket still lack their `else`."""

    def __init__(self) -> None:
        self._lacking = [0]

    def open(self) -> None:
        """A bracket opens."""
        self._lacking.append(0)

    def see(self, word: str) -> None:
        """A word of the innermost bracket."""
        self._lacking[-1] += (word == "if") - (word == "else")

    def close(self) -> str:
        """A bracket closes: what is to stand before it."""
        lacking = self._lacking.pop()
        if not self._lacking:  # one that was never opened
            self._lacking.append(0)
        return " else True" * max(0, lacking)


def _tokens(text: str) -> Iterator[re.Match[str]]:
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            message = f"{text[place : place + 12]!r} is not part of the language of constraints"
            raise ConstraintError(message, place)
        if token.lastgroup == "instead":
            message = f"write {INSTEAD[token.group()]} for {token.group()}"
            raise ConstraintError(message, place)
        yield token
        place = token.end()


def _in_python(
    word: str, place: int, made: Translation, known_fields: ScenarioFields, names: frozenset[str]
) -> str:
    """A keyword, the name of a field, or a text in quotes."""
    if word in KEYWORDS:
        return KEYWORDS[word]
    is_field = word in known_fields.names or word in known_fields.by_last_part
    if not is_field and word not in known_fields.sections:
        if word.partition(".")[0] in known_fields.sections:
            raise ConstraintError(str(known_fields.check(word)), place)
        return repr(word)
    if word in names:
        message = f"{word} is a field and a name; write {word!r} in quotes, or the dotted field"
        raise ConstraintError(message, place)
    try:
        return made.name(known_fields.resolve(word))
    except ValueError as error:
        raise ConstraintError(str(error), place) from error
