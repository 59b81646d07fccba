"""Whether a captured trace of blocks fits a decode section, and what it leaves to it."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from simulator import decoding, library
from simulator.documents import DocumentError, Mistake
from simulator.replay.block_source import overwrites
from simulator.replay.iteration_choice import captured_trace
from traces.block_manifest import BlockManifest
from traces.block_trace import BlockTrace
from traces.captured import CapturedManifest, Parameter

BLOCK: Final = "block"
REVEALING: Final = ("single-block", "multi-block")
"""Policies that never overwrite a token."""


def shipped_blocks(policies: Sequence[str]) -> dict[str, BlockManifest]:
    """The shipped traces of blocks of *policies*, by name."""
    return {
        name: manifest
        for name, manifest in library.TRACES.shipped().items()
        if isinstance(manifest, BlockManifest) and manifest.policy in policies
    }


def captured_parameters(policy: str, manifest: CapturedManifest) -> dict[str, Parameter]:
    """What a trace was captured with, of the parameters that a replay of *policy* may change."""
    replays = decoding.policy(policy).REPLAYS
    own = {name: manifest.parameters[name] for name in replays.free if name in manifest.parameters}
    return {BLOCK: manifest.block_tokens} | own


def replaying() -> list[str]:
    """The policies that replay traces of blocks."""
    return [name for name in decoding.names() if hasattr(decoding.policy(name), "REPLAYS")]


def blocks_of(policy: str, block: int, name: str) -> BlockTrace:
    """The captured blocks called *name* for a *policy* at so many places of a *block*.

    Raises DocumentError, the fields of whose mistakes are the decode section's.
    """
    manifest = library.TRACES.get(name)
    mistakes = list(blocks_mistakes(policy, block, manifest))
    if mistakes:
        raise DocumentError(name, mistakes)
    trace = captured_trace(name, manifest)
    if not isinstance(trace, BlockTrace):
        raise DocumentError(name, [Mistake("trace", "is not a trace of blocks")])
    return trace


def blocks_mistakes(policy: str, block: int, manifest: Any) -> Iterator[Mistake]:  # noqa: ANN401 (of the shelf)
    """Why a trace cannot tell what *policy* would do; nothing where it can."""
    policies = decoding.policy(policy).REPLAYS.policies
    if not isinstance(manifest, BlockManifest) or manifest.policy not in policies:
        kinds = ", ".join(manifest.policies)
        rule = f"{policy} replays traces of blocks by {', '.join(policies)}"
        yield Mistake("trace", f"{rule}; {manifest.name} is of {kinds}; {_known(policy)}")
        return
    if _edits_in_vain(policy, manifest):
        rule = f"{policy} never overwrites a token, {manifest.name} does"
        yield Mistake("trace", f"{rule}; {_known(policy)}")
    if block != manifest.block_tokens:
        rule = f"{manifest.name} was decoded in blocks of {manifest.block_tokens}"
        yield Mistake(BLOCK, f"{rule}, and how other blocks fare is not in it, got {block}")


def _known(policy: str) -> str:
    """The traces that would have been right; all manifests are read, so only for a message."""
    found = shipped_blocks(decoding.policy(policy).REPLAYS.policies)
    right = [name for name, manifest in found.items() if not _edits_in_vain(policy, manifest)]
    return f"known: {', '.join(right) or 'none'}"


def _edits_in_vain(policy: str, manifest: BlockManifest) -> bool:
    """Whether a trace has edits, and *policy* none."""
    return policy in REVEALING and overwrites(manifest)
