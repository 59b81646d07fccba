"""A YAML file of ours as a checked value: safe YAML, and every mistake against the schema."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


def checked_yaml(schema: type[T], path: Path, kind: str) -> T:
    """The file at *path* as a *schema*; raises ValueError with why it is not a *kind*."""
    return _checked(schema, _read(path), path, kind)


def chosen_yaml(choose: Callable[[dict[str, Any]], type[T]], path: Path, kind: str) -> T:
    """`checked_yaml` where the fields of the file *choose* the schema; what that raises, too."""
    document = _read(path)
    return _checked(choose(_checked(dict[str, Any], document, path, kind)), document, path, kind)


def _read(path: Path) -> object:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"{path}: cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        what = f"{path}: not UTF-8 text"
    except yaml.YAMLError as error:
        what = f"{path}: not YAML: {error}"
    raise ValueError(what)


def _checked(schema: type[T], document: object, path: Path, kind: str) -> T:
    try:
        return TypeAdapter(schema).validate_python(document)
    except ValidationError as error:
        mistakes = [
            f"{'.'.join(str(part) for part in mistake['loc'])}: {mistake['msg']}"
            for mistake in error.errors()
        ]
        what = f"{path}: not a {kind}: {'; '.join(mistakes)}"
    raise ValueError(what)
