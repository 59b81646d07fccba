"""Scenario: names and numbers of one what-if, read from a document with every mistake found."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import ConfigDict, Field, Strict

from simulator import batching, decoding, routers, workloads
from simulator.documents import MAX_DEPTH, DocumentError, Mistake, check, known, parse, shown
from simulator.library import is_path
from simulator.measure import Measure
from simulator.ops import Precision
from simulator.routing import Routing
from simulator.serving import Disaggregation, Replicas, ServingChoice
from simulator.slo import Slo

Degree = Annotated[int, Strict(), Field(ge=1, le=64)]
Seed = Annotated[int, Strict(), Field(ge=0, lt=2**32)]


@dataclass(frozen=True)
class Parallel:
    """GPUs: *tp* share every layer, and there are *dp* replicas of that."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    tp: Degree = 1
    dp: Replicas = 1


@dataclass(frozen=True)
class BatchingChoice:
    """Overrides of the engine's batching."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    mode: str | None = None
    max_batch: Annotated[int, Strict(), Field(ge=1, le=100_000)] | None = None


@dataclass(frozen=True)
class Header:
    """The plain fields of a scenario."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    model: str
    hardware: str
    engine: str = "ideal"
    seed: Seed = 0
    parallel: Parallel = field(default_factory=Parallel)
    precision: Precision = field(default_factory=Precision)
    batching: BatchingChoice = field(default_factory=BatchingChoice)
    routing: Routing = field(default_factory=Routing)
    serving: ServingChoice = field(default_factory=ServingChoice)
    router: str = "round-robin"
    disaggregation: Disaggregation | None = None
    measure: Measure = field(default_factory=Measure)
    slo: Slo | None = None
    decode: Any = None
    workload: Any = None


@dataclass(frozen=True)
class Scenario(Header):
    """A checked scenario. *decode* and *workload* are their module's Parameters."""

    def document(self) -> dict[str, Any]:
        """The scenario as plain values, defaults written out; what its files say is left out."""
        document = asdict(self)
        for name in getattr(self.workload, "FOUND", ()):
            del document["workload"][name]
        return document


class Findings:
    """Collects mistakes while a scenario is read, so that all are reported together."""

    def __init__(self, origin: str) -> None:
        """Start with none; *origin* names the file."""
        self.origin = origin
        self.mistakes: list[Mistake] = []

    def add(self, where: str, what: str) -> None:
        """Note one."""
        self.mistakes.append(Mistake(where, what))

    def extend(self, where: str, error: DocumentError) -> None:
        """Note another file's mistakes below *where*."""
        inside = error.origin if is_path(error.origin) else ""
        for mistake in error.mistakes:
            self.add(where, f"{inside}: {mistake}" if inside else str(mistake))

    def check(self, schema: type[Any], value: object, where: str = "") -> Any:  # noqa: ANN401 (of the schema)
        """*value* as *schema*, or None when it has mistakes."""
        checked, mistakes = check(schema, value, where)
        self.mistakes += mistakes
        return checked

    def stop(self) -> None:
        """Raise a DocumentError when there are any."""
        if self.mistakes:
            raise DocumentError(self.origin, self.mistakes)


def with_settings(document: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of *document* with the dotted fields of *settings* put in place."""
    changed = dict(document)
    for dotted, value in settings.items():
        head, _, rest = dotted.partition(".")
        if rest:
            inner = changed.get(head)
            value = with_settings(inner if isinstance(inner, dict) else {}, {rest: value})  # noqa: PLW2901
        changed[head] = value
    return changed


def is_field(dotted: str) -> bool:
    """Whether *dotted* can name a field: every part has a name, and it is no deeper than any."""
    parts = dotted.split(".")
    return all(parts) and len(parts) <= MAX_DEPTH


def settings_of(options: tuple[str, ...], origin: str = "--set") -> dict[str, Any]:
    """`key=value` options as dotted fields and YAML values; raises DocumentError."""
    settings, wrong = {}, []
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not is_field(key):
            wrong.append(Mistake(shown(option), "must be key=value, such as decode.block=8"))
        else:
            settings[key] = parse(value, f"{origin} {key}")
    if wrong:
        raise DocumentError(origin, wrong)
    return settings


def read(document: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """The valid parts of a scenario, by field; every mistake goes to *findings*."""
    parts: dict[str, Any] = {}
    header = dict(document)
    parts["decode"] = _tagged(header.pop("decode", None), "policy", decoding, findings)
    parts["workload"] = _tagged(header.pop("workload", {}), "kind", workloads, findings)
    checked = findings.check(Header, header)
    if checked is not None:
        parts |= {name: value for name, value in vars(checked).items() if name not in parts}
    else:
        parts |= _salvage(header)
    mode = getattr(parts.get("batching"), "mode", None)
    if mode is not None and mode not in batching.names():
        findings.add("batching.mode", known(mode, batching.names(), "batching mode"))
    if parts.get("router", "round-robin") not in routers.names():
        findings.add("router", known(parts["router"], routers.names(), "router"))
    return parts


def _salvage(header: dict[str, Any]) -> dict[str, Any]:
    """The fields that are right when others are not, so that names are still looked up."""
    sound: dict[str, Any] = {}
    defaults = {"model": "?", "hardware": "?"}
    for name, value in header.items():
        if isinstance(name, str) and name in Header.__dataclass_fields__:
            part, _ = check(Header, defaults | {name: value})
            if part is not None:
                sound[name] = getattr(part, name)
    return sound


def _tagged(value: object, tag: str, folder: Any, findings: Findings) -> Any:  # noqa: ANN401 (of the module)
    """A section whose *tag* names the module with its schema: decode.policy, workload.kind."""
    section = "decode" if tag == "policy" else "workload"
    find: Callable[[str], Any] = getattr(folder, tag if tag == "policy" else "workload")
    if not isinstance(value, dict):
        findings.add(section, f"a mapping with a {tag} is needed, got {shown(value)}")
        return None
    name = value.get(tag, "closed" if tag == "kind" else None)
    if not isinstance(name, str) or name not in folder.names():
        what = known(name if isinstance(name, str) else shown(name), folder.names(), tag)
        findings.add(f"{section}.{tag}", "a required field is missing" if name is None else what)
        return None
    return findings.check(find(name).Parameters, value, section)
