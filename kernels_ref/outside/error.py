"""OutsideError: why a folder from outside cannot be used."""

from pathlib import Path


class OutsideError(ValueError):
    """A folder, or a file in it, that cannot be used: which, and the rule that it breaks."""

    def __init__(self, path: Path, rule: str) -> None:
        """Say that *path* breaks *rule*."""
        super().__init__(f"{path}: {rule}")
        self.path = path
        self.rule = rule
