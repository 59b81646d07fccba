"""Library: a file is read once for each text that it has had."""

from pathlib import Path

import pytest

from simulator.documents import DocumentError
from simulator.library import ENGINES


def engine(path: Path, name: str) -> str:
    """A file of an engine, and its path."""
    rest = "description: made up\nsource: nobody\nbatching: continuous\nmax_batch: 4\n"
    path.write_text(f"name: {name}\n{rest}")
    return str(path)


def test_equal_texts_are_one_thing(tmp_path: Path) -> None:
    """A process that runs many scenarios of an engine reads it once."""
    path = engine(tmp_path / "own.yaml", "own")
    assert ENGINES.get(path) is ENGINES.get(path)


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    """What counts is what the file says now, even at the same second and of the same length."""
    path = tmp_path / "own.yaml"
    assert ENGINES.get(engine(path, "one")).name == "one"
    assert ENGINES.get(engine(path, "two")).name == "two"


def test_a_mistake_is_told_each_time(tmp_path: Path) -> None:
    """A file that is wrong stays wrong until it is mended."""
    path = tmp_path / "own.yaml"
    path.write_text("name: own\nspeed: 3\n")
    for _ in range(2):
        with pytest.raises(DocumentError, match="speed"):
            ENGINES.get(str(path))
    assert ENGINES.get(engine(path, "own")).name == "own"
