"""A YAML file of ours as a checked value: safe YAML, and every mistake against the schema."""

from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


def checked_yaml(schema: type[T], path: Path, kind: str) -> T:
    """The file at *path* as a *schema*; raises ValueError with why it is not a *kind*."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        return TypeAdapter(schema).validate_python(document)
    except OSError as error:
        what = f"{path}: cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        what = f"{path}: not UTF-8 text"
    except yaml.YAMLError as error:
        what = f"{path}: not YAML: {error}"
    except ValidationError as error:
        mistakes = [
            f"{'.'.join(str(part) for part in mistake['loc'])}: {mistake['msg']}"
            for mistake in error.errors()
        ]
        what = f"{path}: not a {kind}: {'; '.join(mistakes)}"
    raise ValueError(what)
