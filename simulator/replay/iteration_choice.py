"""Whether a captured trace of iterations fits a decode section, and what it leaves to it."""

from collections.abc import Iterator
from typing import Any, Final, Protocol

from simulator import library
from simulator.documents import DocumentError, Mistake
from traces.captured import CapturedManifest
from traces.captured_trace import CapturedTrace
from traces.iteration_manifest import IterationManifest
from traces.reading import trace_of
from traces.trace_error import TraceError

TREE: Final = ("top_k", "tree_size")
"""Parameters that only trees have."""
SHAPE: Final = ("block", *TREE)
"""Parameters of a decode section that say what is drafted."""


class Decode(Protocol):
    """A decode section that may name a trace; a policy without drafts has none of `SHAPE`."""

    @property
    def policy(self) -> str:
        """Its name."""

    @property
    def trace(self) -> str | None:
        """Name or path of the trace."""


def captured_shape(manifest: CapturedManifest) -> dict[str, Any]:
    """What a trace was drafted with, by the names that decode sections have."""
    own = {name: manifest.parameters.get(name) for name in TREE if name in manifest.parameters}
    return {"block": manifest.block_tokens} | own


def shipped_iterations(policy: str) -> dict[str, CapturedManifest]:
    """The shipped traces of iterations of *policy*, by name."""
    return {
        name: manifest
        for name, manifest in library.TRACES.shipped().items()
        if isinstance(manifest, IterationManifest) and manifest.policy == policy
    }


def captured_trace(name: str, manifest: CapturedManifest) -> CapturedTrace:
    """The tables of the trace called *name* with it; raises DocumentError for wrong ones."""
    try:
        return trace_of(manifest, library.TRACES.path(name).parent)
    except TraceError as error:
        mistakes = [Mistake(mistake.where, mistake.rule) for mistake in error.mistakes]
        raise DocumentError(error.origin, mistakes) from error


def shape_mistakes(decode: Decode, manifest: IterationManifest) -> Iterator[Mistake]:
    """What *decode* asks for that cannot be read off the trace, and which traces can tell.

    A chain that was captured at a larger block tells of smaller ones; a tree tells of itself.
    """
    captured = captured_shape(manifest)
    is_tree = any(name in captured for name in TREE)
    for name in SHAPE:
        asked = getattr(decode, name, None)
        own = captured.get(name)
        if asked in {None, own} or (not is_tree and asked < captured["block"]):
            continue
        why = ", and a tree is only replayed as captured" if is_tree else ""
        others = ", ".join(_that_can(decode, manifest.policy, is_tree=is_tree)) or "none"
        at = f"{manifest.name} was captured at {name} {own}{why}"
        yield Mistake(name, f"{at}, got {asked}; traces that can: {others}")


def _that_can(decode: Decode, policy: str, *, is_tree: bool) -> Iterator[str]:
    """Shipped traces of *policy* that tell what *decode* asks for."""
    for name, manifest in shipped_iterations(policy).items():
        captured = captured_shape(manifest)
        asked = {field: getattr(decode, field, None) for field in captured}
        if asked == captured or (not is_tree and asked["block"] <= captured["block"]):
            yield name
