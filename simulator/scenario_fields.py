"""Scenario fields: every dotted field that a scenario can have, and its value in a document."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, Final, get_args

from simulator import decoding, workloads
from simulator.documents import known
from simulator.replay.captured_defaults import with_captured
from simulator.scenario import Header

DECODE: Final = "decode"
WORKLOAD: Final = "workload"
TAGS: Final = {DECODE: "policy", WORKLOAD: "kind"}
"""The field of a section that says which others it has."""
TAG_DEFAULTS: Final = {WORKLOAD: "closed"}

Defaults = Mapping[str, Any]
"""By field of a section; MISSING where a scenario must say it."""


class FieldAbsentError(LookupError):
    """A scenario's section does not have the field."""


@dataclass(frozen=True)
class ScenarioFields:
    """What a scenario can have."""

    plain: Defaults
    """By dotted field, outside decode and workload."""
    tagged: Mapping[str, Mapping[str, Defaults]]
    """By section and its tag."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every dotted field, each once."""
        tagged = (
            f"{section}.{name}"
            for section, by_tag in self.tagged.items()
            for defaults in by_tag.values()
            for name in defaults
        )
        return tuple(dict.fromkeys((*self.plain, *tagged)))

    @cached_property
    def sections(self) -> frozenset[str]:
        """What has fields of its own; its value is a mapping of them."""
        return frozenset(name.partition(".")[0] for name in self.names if "." in name)

    def check(self, dotted: str) -> str | None:
        """What is wrong with the name of a field or section, nearest ones first; None if it is."""
        if dotted in self.names or dotted in self.sections:
            return None
        return known(dotted, (*self.names, *self.sections), "field of a scenario")

    @cached_property
    def by_last_part(self) -> Mapping[str, tuple[str, ...]]:
        """The fields that may be meant by their last part, or their whole name, alone."""
        found: dict[str, tuple[str, ...]] = {}
        for name in self.names:
            last = name.rpartition(".")[2]
            found[last] = (*found.get(last, ()), name)
        return found

    def resolve(self, name: str) -> str:
        """The dotted field that *name*, maybe only its last part, says.

        Raises ValueError, with the candidates, for none and for several.
        """
        if name in self.names:
            return name
        if name in self.sections:
            message = f"{name} is a section; name one of its fields, as {self._example(name)}"
            raise ValueError(message)
        found = self.by_last_part.get(name, ())
        if len(found) == 1:
            return found[0]
        if found:
            message = f"{name} may be {' or '.join(found)}; write one of them"
            raise ValueError(message)
        raise ValueError(known(name, self.names, "field of a scenario"))

    def value(self, document: Mapping[str, Any], dotted: str) -> Any:  # noqa: ANN401 (a YAML value)
        """What *document* says of a field, else its default.

        Raises FieldAbsentError where its section does not have it.
        """
        section, _, name = dotted.partition(".")
        if section in self.tagged:
            return self._tagged_value(document, section, name)
        here: Any = document
        for part in dotted.split("."):
            if not isinstance(here, Mapping) or part not in here:
                return self._default(self.plain, dotted)
            here = here[part]
        return here

    def applies(self, dotted: str, document: Mapping[str, Any]) -> bool:
        """Whether *document* can have the field: decode and workload have those of their tag."""
        section, _, name = dotted.partition(".")
        inside = document.get(section)
        if section not in self.tagged or not name or not isinstance(inside, Mapping):
            return True
        own = self.tagged[section].get(inside.get(TAGS[section], TAG_DEFAULTS.get(section)))
        return own is None or name == TAGS[section] or name in own

    def _tagged_value(self, document: Mapping[str, Any], section: str, name: str) -> Any:  # noqa: ANN401
        """Of decode or workload, whose fields are those that its tag says."""
        inside = document.get(section, {})
        tag = TAG_DEFAULTS.get(section)
        if isinstance(inside, Mapping):
            tag = inside.get(TAGS[section], tag)
            if name in inside:
                return inside[name]
        if name == TAGS[section] and tag is not None:
            return tag
        defaults = self.tagged[section].get(tag, {}) if isinstance(tag, str) else {}
        return self._default(defaults, name, f"{section}.{name} under {TAGS[section]} {tag}")

    def _default(self, defaults: Defaults, name: str, words: str = "") -> Any:  # noqa: ANN401
        if name not in defaults or defaults[name] is MISSING:
            raise FieldAbsentError(words or name)
        return defaults[name]

    def _example(self, section: str) -> str:
        return next(name for name in self.names if name.startswith(f"{section}."))


class FieldValues:
    """Values of the fields of many documents; a trace that many of them name is read once."""

    def __init__(self, known_fields: ScenarioFields) -> None:
        """Start with no trace."""
        self._fields = known_fields
        self._captured: dict[tuple[str, str], Mapping[str, Any]] = {}

    def value(self, document: Mapping[str, Any], dotted: str) -> Any:  # noqa: ANN401 (a YAML value)
        """What *document* says of a field, else its captured trace, else its default.

        Raises FieldAbsentError where its section does not have it.
        """
        section, _, name = dotted.partition(".")
        if section == DECODE and name in (captured := self._of_trace(document.get(DECODE))):
            return captured[name]
        return self._fields.value(document, dotted)

    def _of_trace(self, decode: object) -> Mapping[str, Any]:
        """The decode section with what its trace says."""
        if not isinstance(decode, Mapping):
            return {}
        key = decode.get("policy"), decode.get("trace")
        if not isinstance(key[0], str) or not isinstance(key[1], str):
            return {}
        if key not in self._captured:
            bare = {"policy": key[0], "trace": key[1]}
            self._captured[key[0], key[1]] = with_captured({DECODE: bare})[DECODE]
        return {**self._captured[key[0], key[1]], **decode}


def scenario_fields() -> ScenarioFields:
    """Every field, of every policy and every kind of workload."""
    return ScenarioFields(
        plain=dict(_plain(Header)),
        tagged={
            DECODE: _tagged(decoding.names(), decoding.policy),
            WORKLOAD: _tagged(workloads.names(), workloads.workload),
        },
    )


def check_field(dotted: str) -> str | None:
    """What is wrong with the name of a field or section; None if there is one."""
    return scenario_fields().check(dotted)


def resolve(name: str) -> str:
    """The dotted field that *name* says; raises ValueError, with the candidates."""
    return scenario_fields().resolve(name)


def leaves(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Settings of dotted fields with every mapping taken apart into its fields."""
    for dotted, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from leaves({f"{dotted}.{name}": inner for name, inner in value.items()})
        else:
            yield dotted, value


def _plain(schema: type[Any], where: str = "") -> Iterator[tuple[str, Any]]:
    for each in fields(schema):
        if where == "" and each.name in TAGS:
            continue
        inner = _section_in(each.type)
        if inner is None:
            yield f"{where}{each.name}", _default_of(each)
        else:
            yield from _plain(inner, f"{where}{each.name}.")


def _tagged(names: list[str], find: Callable[[str], Any]) -> dict[str, Defaults]:
    found: dict[str, Defaults] = {}
    for name in names:
        schema = find(name).Parameters
        left_out = getattr(schema, "FOUND", ())
        own = {f.name: _default_of(f) for f in fields(schema) if f.name not in left_out}
        found[name] = own
    return found


def _default_of(each: "Field[Any]") -> Any:  # noqa: ANN401 (a field's)
    if each.default_factory is not MISSING:
        return each.default_factory()
    return each.default


def _section_in(annotation: object) -> type[Any] | None:
    """The dataclass that *annotation* is, or allows beside None."""
    if isinstance(annotation, type) and is_dataclass(annotation):
        return annotation
    inner = (_section_in(argument) for argument in get_args(annotation))
    return next((found for found in inner if found is not None), None)
