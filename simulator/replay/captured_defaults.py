"""What a decode section leaves out and the captured trace that it names says."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from simulator import decoding, library
from simulator.documents import DocumentError
from simulator.replay.block_choice import captured_parameters
from simulator.replay.iteration_choice import captured_shape
from traces.block_manifest import BlockManifest
from traces.captured import CapturedManifest
from traces.iteration_manifest import IterationManifest


def with_captured(document: Mapping[str, Any]) -> dict[str, Any]:
    """*document* with the captured values of what its decode section leaves out.

    Of iterations those are block, top_k and tree_size, of blocks the parameters that a replay may
    change; where KV is stored is the engine's affair. What is wrong with the section is left for
    others to tell.
    """
    decode = document.get("decode")
    if not isinstance(decode, Mapping) or decode.get("policy") not in decoding.names():
        return dict(document)
    captured = _captured(decode["policy"], _named(decode.get("trace")))
    return dict(document) | {"decode": captured | dict(decode)}


def _named(name: object) -> CapturedManifest | None:
    """The manifest of the captured trace called *name*, if it is one."""
    try:
        manifest = library.TRACES.get(name) if isinstance(name, str) else None
    except DocumentError:
        return None
    return manifest if isinstance(manifest, CapturedManifest) else None


def _captured(policy: str, manifest: CapturedManifest | None) -> dict[str, Any]:
    """What *manifest* says of the parameters that *policy* has."""
    module = decoding.policy(policy)
    if isinstance(manifest, BlockManifest) and hasattr(module, "REPLAYS"):
        own = captured_parameters(policy, manifest)
        return {name: value for name, value in own.items() if name != "store"}
    if isinstance(manifest, IterationManifest):
        known = {field.name for field in fields(module.Parameters)}
        return {n: value for n, value in captured_shape(manifest).items() if n in known}
    return {}
