"""Describe: a named thing as plain values, with what is derived from it."""

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from simulator import batching, decoding, routers, workloads
from simulator.documents import DocumentError, Mistake, known
from simulator.library import SHELVES, TRACES
from simulator.model import ELEMENT_BYTES, ModelSpec
from traces.acceptance import acceptance_model
from traces.captured import CapturedManifest
from traces.manifest import Manifest
from traces.reading import trace_of
from traces.records import records
from traces.trace_error import TraceError

MODULES: Final[Mapping[str, tuple[Any, Callable[[str], Any]]]] = {
    "policies": (decoding, decoding.policy),
    "workloads": (workloads, workloads.workload),
    "batching": (batching, batching.batching),
    "routers": (routers, routers.router),
}
"""Kinds of which a module is one thing: their package, and what takes a module from it."""


def describe(kind: str, name: str) -> dict[str, Any]:
    """The thing's fields and what follows from them; raises DocumentError for unknown names."""
    if kind in MODULES:
        return _module(kind, name)
    thing = SHELVES[kind].get(name)
    # Tuples and numpy numbers turn into what JSON and YAML write.
    described: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(thing)))
    if isinstance(thing, ModelSpec):
        described["derived"] = _model(thing)
    if isinstance(thing, Manifest):
        described["derived"] = _trace(thing)
    if isinstance(thing, CapturedManifest):
        described["derived"] = _captured(thing, TRACES.path(name).parent)
    return described


def _module(kind: str, name: str) -> dict[str, Any]:
    folder, module_of = MODULES[kind]
    if name not in folder.names():
        raise DocumentError(kind, [Mistake("", known(name, folder.names(), kind))])
    module = module_of(name)
    described: dict[str, Any] = {"name": name, "description": inspect.getdoc(module)}
    parameters, uses = getattr(module, "Parameters", None), getattr(module, "USES", None)
    if parameters is not None:
        described["parameters"] = _fields(parameters)
    if uses is not None:
        described["uses"] = dataclasses.asdict(uses)
    return described


def _fields(parameters: Any) -> list[dict[str, Any]]:  # noqa: ANN401 (a class of any module)
    """What a scenario may give, and what holds when it does not."""
    found = getattr(parameters, "FOUND", ())
    return [
        {
            "name": field.name,
            "default": None if field.default is dataclasses.MISSING else field.default,
            "required": field.default is dataclasses.MISSING,
        }
        for field in dataclasses.fields(parameters)
        if field.name not in found
    ]


def _model(model: ModelSpec) -> dict[str, Any]:
    return {
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "kv_bytes_per_token_bf16": model.kv_bytes_per_token(ELEMENT_BYTES["bf16"]),
        "adapter_parameters": {n: model.adapter_parameters(a) for n, a in model.adapters.items()},
        "drafter_parameters": {n: d.parameters for n, d in model.drafters.items()},
    }


def _trace(trace: Manifest) -> dict[str, Any]:
    models = {benchmark: acceptance_model(trace, benchmark) for benchmark in trace.benchmarks}
    return {
        "fit_residual": {name: round(model.residual, 5) for name, model in models.items()},
        "points": {name: model.points for name, model in models.items()},
    }


def _captured(manifest: CapturedManifest, folder: Path) -> dict[str, Any]:
    """The statistics of a captured trace; raises DocumentError for tables that are wrong."""
    try:
        return records(manifest.records).summary(trace_of(manifest, folder))
    except TraceError as error:
        mistakes = [Mistake(mistake.where, mistake.rule) for mistake in error.mistakes]
        raise DocumentError(error.origin, mistakes) from error
