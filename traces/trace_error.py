"""TraceError: everything that is wrong with a trace, each with its file, place and rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TraceMistake:
    """One thing wrong: the file, the place in it (may be empty) and the rule that it breaks."""

    file: str
    place: str
    rule: str

    @property
    def where(self) -> str:
        """File and place."""
        return f"{self.file}, {self.place}" if self.place else self.file

    def __str__(self) -> str:
        """The mistake as one line."""
        return f"{self.where}: {self.rule}"


class TraceError(ValueError):
    """A trace that cannot be used; holds every mistake found and the folder it is in."""

    def __init__(self, origin: Path | str, mistakes: Sequence[TraceMistake]) -> None:
        """Keep the *mistakes* in the order given, each once."""
        self.origin = str(origin)
        self.mistakes = tuple(dict.fromkeys(mistakes))
        super().__init__("\n".join([f"{origin}:", *(f"  {m}" for m in self.mistakes)]))
