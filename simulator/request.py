"""Request: what one user asked for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """A prompt of *prompt_tokens* to continue by *output_tokens*; *index* keys its random draws."""

    index: int
    prompt_tokens: int
    output_tokens: int
    arrival_s: float = 0.0
    seed: int = 0
    """Seed of the run: draws are keyed by (seed, index), never by time."""
    source: int | None = None
    """Row of the trace's requests that it repeats; None draws from the trace."""
    prefix: tuple[int, ...] = ()
    """Identities of the prompt's leading blocks: who has the same, begins with the same tokens."""
    prefix_block_tokens: int = 0
    """Tokens of each of them; a last one that the prompt does not fill is nobody else's."""

    @property
    def total_tokens(self) -> int:
        """Length of the finished sequence."""
        return self.prompt_tokens + self.output_tokens

    @property
    def key(self) -> tuple[int, int]:
        """Key of the request's random draws."""
        return self.seed, self.index
