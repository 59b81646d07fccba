"""Describe: a named thing as plain values, with what is derived from it."""

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

from simulator import decoding, workloads
from simulator.documents import DocumentError, Mistake, known
from simulator.library import SHELVES, TRACES
from simulator.model import ELEMENT_BYTES, ModelSpec
from traces.acceptance import acceptance_model
from traces.captured import CapturedManifest
from traces.manifest import Manifest
from traces.reading import trace_of
from traces.records import records
from traces.trace_error import TraceError


def describe(kind: str, name: str) -> dict[str, Any]:
    """The thing's fields and what follows from them; raises DocumentError for unknown names."""
    if kind in {"policies", "workloads"}:
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
    folder: Any = decoding if kind == "policies" else workloads
    if name not in folder.names():
        raise DocumentError(kind, [Mistake("", known(name, folder.names(), kind))])
    module = folder.policy(name) if kind == "policies" else folder.workload(name)
    fields = [
        {
            "name": field.name,
            "default": None if field.default is dataclasses.MISSING else field.default,
            "required": field.default is dataclasses.MISSING,
        }
        for field in dataclasses.fields(module.Parameters)
    ]
    described = {"name": name, "description": inspect.getdoc(module), "parameters": fields}
    uses = getattr(module, "USES", None)
    return described | ({"uses": dataclasses.asdict(uses)} if uses else {})


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
