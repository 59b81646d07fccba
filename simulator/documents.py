"""The boundary where a YAML file becomes checked values: every mistake found, all at once."""

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

# A scenario, model or profile is a few kilobytes; anything far larger is not one of ours.
MAX_DOCUMENT_BYTES = 1_000_000
MAX_DEPTH = 40
# Characters of a value in a message; Python refuses to print far longer whole numbers.
MAX_SHOWN = 60
MOST_SHOWN_BITS = 180
# Names in a message, of those that would have been right.
MOST_NAMES = 40

T = TypeVar("T")

# YAML 1.1 reads an exponent without a sign as text.
_UNSIGNED_EXPONENT = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9]*)?[eE][0-9]+")


@dataclass(frozen=True)
class Mistake:
    """One thing wrong at one place: a dotted field (may be empty) and the rule it breaks."""

    where: str
    what: str

    def __str__(self) -> str:
        """The mistake as one line."""
        return f"{self.where}: {self.what}" if self.where else self.what


class DocumentError(ValueError):
    """What a user gave is wrong; holds every mistake found and the file or option it was in."""

    def __init__(self, origin: str, mistakes: Sequence[Mistake]) -> None:
        """Keep the *mistakes* in the order given, each once."""
        self.origin = origin
        self.mistakes = tuple(dict.fromkeys(mistakes))
        # Where a process of SimPy raises it, it is made again from its arguments.
        super().__init__(origin, self.mistakes)

    def __str__(self) -> str:
        """The origin, then a line for each mistake."""
        return "\n".join([f"{self.origin}:", *(f"  {m}" for m in self.mistakes)])


class _DocumentLoader(yaml.SafeLoader):
    """Safe YAML without aliases (which can expand without bound), repeated keys or deep nests."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401 (PyYAML's signature)
        # Aliases have an anchor too: the one that they repeat.
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if event.anchor is not None:
            raise yaml.constructor.ConstructorError(
                None, None, "anchors and aliases are not accepted", event.start_mark
            )
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise yaml.constructor.ConstructorError(
                None, None, f"nested more than {MAX_DEPTH} deep", event.start_mark
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:  # noqa: ANN401, FBT001, FBT002
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a field name is text, not a list or mapping", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"field {shown(key.value)} is given twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def parse(text: str, origin: str) -> Any:  # noqa: ANN401 (a YAML value may be anything)
    """The YAML value in *text*; raises DocumentError naming *origin*, line and column."""
    try:
        return yaml.load(text, Loader=_DocumentLoader)  # noqa: S506 (a SafeLoader, tightened)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = f"not readable as YAML: {error.problem}"
    except (yaml.YAMLError, ValueError) as error:
        at, what = "", f"not readable as YAML: {error}"
    raise DocumentError(origin, [Mistake(at, what)])


def read_text(path: Path) -> str:
    """The text of a small UTF-8 file; raises DocumentError when it is missing, huge or binary."""
    try:
        if path.is_dir():
            what = "is a folder; a file is needed"
        else:
            with path.open("rb") as file:
                # A pipe or device says no size beforehand, so one byte more than allowed is asked.
                content = file.read(MAX_DOCUMENT_BYTES + 1)
            if len(content) <= MAX_DOCUMENT_BYTES:
                return content.decode("utf-8")
            size_bytes = max(len(content), path.stat().st_size)
            most = f"a document has at most {MAX_DOCUMENT_BYTES / 1e6:.0f} MB"
            what = f"{most}, got {size_bytes / 1e6:.1f} MB"
    except UnicodeDecodeError:
        what = "is not UTF-8 text"
    except ValueError as error:  # a NUL in the path
        what = f"is not a path: {error}"
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
    raise DocumentError(str(path), [Mistake("", what)])


def read_mapping(path: Path) -> dict[str, Any]:
    """The top-level mapping of a YAML file, unchecked beyond having text for keys."""
    return as_mapping(parse(read_text(path), str(path)), str(path))


def as_mapping(value: object, origin: str) -> dict[str, Any]:
    """*value* itself when it is a mapping with text for keys; raises DocumentError otherwise."""
    if not isinstance(value, dict):
        kind = "is empty" if value is None else f"holds {shown(value)}"
        raise DocumentError(origin, [Mistake("", f"{kind}; a mapping of fields is needed")])
    wrong = [key for key in value if not isinstance(key, str)]
    if wrong:
        raise DocumentError(origin, [Mistake(shown(key), "a field name is text") for key in wrong])
    return value


@cache
def _adapter(schema: Any) -> TypeAdapter[Any]:  # noqa: ANN401 (a type, or a form of one)
    """What checks values against *schema*; it takes longer to make than a document to check."""
    return TypeAdapter(schema)


def check(schema: type[T], value: object, where: str = "") -> tuple[T | None, list[Mistake]]:
    """*value* as a *schema*, or None, and every mistake in it, with dotted paths below *where*."""
    try:
        form: Any = schema
        checked: T = _adapter(form).validate_python(value)
    except ValidationError as error:
        # A list whose items are wrong is also too short without them; the items are told already.
        found = [e for e in error.errors() if e["type"] != "too_short" or not e["input"]]
        return None, [_mistake(schema, item, where) for item in found]
    return checked, []


def load(schema: type[T], path: Path) -> T:
    """The file at *path* as a *schema*; raises DocumentError with every mistake in it."""
    value, mistakes = check(schema, read_mapping(path))
    if value is None:
        raise DocumentError(str(path), mistakes)
    return value


def known(name: str, choices: Iterable[str], kind: str) -> str:
    """What to say when *name* is not among the *choices*: the nearest ones, then all or many."""
    names = sorted(choices)
    near = difflib.get_close_matches(name[:MAX_SHOWN], names, n=3, cutoff=0.5)
    hint = f" did you mean {' or '.join(near)}?" if near else ""
    listed = ", ".join(names[:MOST_NAMES]) or "none"
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"no {kind} {shown(name)};{hint} known: {listed}{more}"


def _mistake(schema: type, item: ErrorDetails, where: str) -> Mistake:
    path, holder = _place(schema, [part for part in item["loc"] if part != "[key]"])
    dotted = ".".join([*([where] if where else []), *(str(part) for part in path)])
    if item["type"] in {"unexpected_keyword_argument", "extra_forbidden"}:
        return Mistake(dotted, known(str(path[-1]), _field_names(holder), "field"))
    if item["type"] == "union_tag_invalid":
        form, choices = item["ctx"]["tag"], re.findall("'([^']+)'", item["ctx"]["expected_tags"])
        return Mistake(f"{dotted}.form", known(form, choices, "form"))
    if item["type"] == "union_tag_not_found":
        return Mistake(f"{dotted}.form", "a required field is missing")
    if item["type"] in {"missing", "missing_argument"}:
        return Mistake(dotted, "a required field is missing")
    return Mistake(dotted, _rule(item))


def _rule(item: ErrorDetails) -> str:
    """The rule a value breaks, then the value."""
    given = item["input"]
    if isinstance(given, str) and _UNSIGNED_EXPONENT.fullmatch(given) and "type" in item["type"]:
        signed = re.sub(r"([eE])", r"\1+", given)
        return f"{given!r} is text to YAML 1.1, not a number; write {signed}"
    rule = item["msg"].removeprefix("Value error, ")
    rule = rule.replace("Input should be", "must be").replace("a valid integer", "an integer")
    rule = rule.replace("Tuple should have", "must have").replace(" after validation, not 0", "")
    rule = rule.replace("a valid ", "a ").replace("Keys should be strings", "a field name is text")
    rule = rule.replace("an object", "a mapping of fields").replace("a dictionary", "a mapping")
    rule = re.sub(r" or an instance of \w+", "", rule)
    # Our own rules say what they got.
    return rule if item["type"] == "value_error" else f"{rule}, got {shown(given)}"


def shown(given: object) -> str:
    """A value as part of a one-line message; containers by their kind, long values cut."""
    if isinstance(given, Mapping | list | tuple | set):
        kinds = {list: "list", tuple: "list", set: "set"}
        return f"a {kinds.get(type(given), 'mapping')}"
    if isinstance(given, int) and given.bit_length() > MOST_SHOWN_BITS:
        return f"a whole number of {given.bit_length()} bits"
    text = repr(given)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def _place(schema: Any, path: Sequence[str | int]) -> tuple[list[str | int], Any]:  # noqa: ANN401 (any annotation)
    """*path* without the tags of unions, which a document does not have, and what holds its end."""
    here, kept, holder = schema, list[str | int](), schema
    for part in path:
        holder = _bare(here)
        if isinstance(holder, tuple):
            here = next((each for each in holder if _has_form(each, part)), None)
            continue
        kept.append(part)
        if dataclasses.is_dataclass(holder):
            here = typing.get_type_hints(holder, include_extras=True).get(str(part))
        else:
            arguments = typing.get_args(holder)
            here = arguments[-1 if typing.get_origin(holder) is dict else 0] if arguments else None
    return kept, holder


def _field_names(holder: Any) -> list[str]:  # noqa: ANN401 (any annotation)
    return [f.name for f in dataclasses.fields(holder)] if dataclasses.is_dataclass(holder) else []


def _has_form(schema: Any, form: str | int) -> bool:  # noqa: ANN401 (any annotation)
    return typing.get_args(typing.get_type_hints(schema)["form"]) == (form,)


def _bare(annotation: Any) -> Any:  # noqa: ANN401 (any annotation)
    """*annotation* without Annotated and without its None alternative; a union as a tuple."""
    while typing.get_origin(annotation) in {typing.Annotated, typing.Union, types.UnionType}:
        kept = [a for a in typing.get_args(annotation) if a is not type(None)]
        is_union = typing.get_origin(annotation) is not typing.Annotated
        if is_union and len(kept) > 1 and all(dataclasses.is_dataclass(a) for a in kept):
            return tuple(kept)
        annotation = kept[0]
    return annotation
