"""RequestFormat: which columns of a file are arrivals and lengths."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RequestFormat:
    """A format's columns; each may have several names, of which a file has one.

    Names are compared without case, spaces, hyphens and underscores, in which releases differ.
    """

    prompt: tuple[str, ...]
    output: tuple[str, ...]
    arrival: Mapping[str, str | None] = field(default_factory=dict)
    """Unit (s, ms or iso) of each name of the arrivals' column, None where the name says none;
    empty in a table of lengths alone."""
    prefix: str = ""
    """Column of the identities of the prompt's leading blocks."""
    prefix_block_tokens: int = 0

    def places(self, header: tuple[str, ...]) -> dict[str, int] | None:
        """Where in *header* its roles are (prompt, output, arrival, prefix); None if one is not."""
        wanted = {"prompt": self.prompt, "output": self.output, "arrival": tuple(self.arrival)}
        wanted |= {"prefix": (self.prefix,)} if self.prefix else {}
        at = {bare(name): place for place, name in reversed(list(enumerate(header)))}
        found: dict[str, int] = {}
        for role, names in wanted.items():
            places = [at[bare(name)] for name in names if bare(name) in at]
            if len(places) > 1 or (names and not places):
                return None
            if places:
                found[role] = places[0]
        return found

    def unit(self, name: str) -> str | None:
        """The unit of the arrivals' column *name*."""
        return next(unit for known, unit in self.arrival.items() if bare(known) == bare(name))

    def __str__(self) -> str:
        """Its columns, for messages."""
        either = ["|".join(names) for names in (tuple(self.arrival), self.prompt, self.output)]
        return ", ".join(filter(None, [*either, self.prefix]))


def bare(name: str) -> str:
    """*name* as it is compared."""
    return name.casefold().replace(" ", "").replace("_", "").replace("-", "")
