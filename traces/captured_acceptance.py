"""The acceptance of captured iterations as a Manifest, so that what fits papers fits it too."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from traces.acceptance import Cell
from traces.captured import Parameter
from traces.iteration_manifest import IterationManifest
from traces.iteration_trace import IterationTrace
from traces.manifest import AcceptanceCell, Manifest
from traces.uncut_iterations import UncutIterations, uncut_iterations

SAMPLING: Final = ("temperature", "top_p", "sample_top_k")
"""Parameters of a captured policy that say how tokens are sampled; None where nothing is cut."""
CANDIDATES: Final = "top_k"
"""The parameter of a captured tree that says how many candidates a position has."""

_SHARED: Mapping[str, Callable[[IterationManifest], object]] = MappingProxyType(
    {
        "drafter": lambda manifest: manifest.checkpoint.sha256,
        "target": lambda manifest: manifest.target.sha256,
        "task": lambda manifest: manifest.task,
        "number of guaranteed_tokens": lambda manifest: manifest.guaranteed_tokens,
        "way of sampling": lambda manifest: sampling_words(manifest.parameters),
    }
)


def captured_manifest(captures: Sequence[IterationTrace], name: str) -> Manifest:
    """The mean tokens per step of *captures* by block and tree size, as the trace called *name*.

    They are of one decoder, as chains of several blocks and as trees; the one benchmark is named
    after their task. `acceptance_model(manifest, manifest.benchmarks[0])` fits it. Raises
    ValueError for captures that do not go together, have no uncut iteration, or have no chain.
    """
    if not captures:
        rule = "acceptance is fitted to at least one trace, got none"
        raise ValueError(rule)
    _check_shared([trace.manifest for trace in captures])
    first = captures[0].manifest
    policies = tuple(dict.fromkeys(trace.manifest.policy for trace in captures))
    return Manifest(
        format_version=1,
        name=name,
        description=f"{', '.join(policies)} by {first.checkpoint.name}, {first.task}",
        kind="captured",
        policies=policies,
        model=first.target.name,
        temperature=_temperature(first),
        sampling=sampling_words(first.parameters),
        source=f"captured: {', '.join(trace.manifest.name for trace in captures)}",
        guaranteed_tokens=first.guaranteed_tokens,
        drafts_per_block_offset=_drafts_per_block_offset(captures),
        acceptance=tuple(map(_acceptance, captures)),
        top_k=_candidates(captures),
    )


def cell_of(trace: IterationTrace) -> Cell:
    """(block, tree size) of a capture; the tree size is None for a chain."""
    uncut = uncut_iterations(trace)
    tree_size = int(uncut.nodes.max()) if uncut.has_trees else None
    return trace.manifest.block_tokens, tree_size


def sampling_words(parameters: Mapping[str, Parameter]) -> str:
    """How tokens are sampled by a captured policy's *parameters*, as manifests say it."""
    temperature, top_p, top_k = (parameters.get(name) for name in SAMPLING)
    if temperature == 0:
        return "greedy"
    words = {"temperature": temperature, "top-p": None if top_p == 1 else top_p, "top-k": top_k}
    return ", ".join(
        f"{name} {_plain(value)}" for name, value in words.items() if value is not None
    )


def _plain(value: Parameter) -> str:
    """A number without needless decimals."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def accepting(trace: IterationTrace) -> tuple[UncutIterations, float]:
    """The uncut iterations of *trace* and their mean accepted drafts; ValueError without any."""
    uncut = uncut_iterations(trace)
    mean = uncut.mean_accepted
    if mean is None:
        rule = f"acceptance is known of uncut iterations, got none in {trace.manifest.name}"
        raise ValueError(rule)
    return uncut, mean


def _check_shared(manifests: Sequence[IterationManifest]) -> None:
    for what, of in _SHARED.items():
        if len(found := dict.fromkeys(map(of, manifests))) > 1:
            one, other = list(found)[:2]
            rule = f"traces of one {what} are fitted together, got {one!r} and {other!r}"
            raise ValueError(rule)


def _temperature(manifest: IterationManifest) -> float:
    given = manifest.parameters.get("temperature")
    if isinstance(given, bool | str | None) or given < 0:
        rule = f"parameters.temperature of {manifest.name} is a number of at least 0, got {given!r}"
        raise ValueError(rule)
    return float(given)


def _drafts_per_block_offset(captures: Sequence[IterationTrace]) -> int:
    """Drafts of a chain less its block, which is one number for all chains."""
    chains = {
        trace.manifest.name: uncut.most_drafted - trace.manifest.block_tokens
        for trace in captures
        if not (uncut := uncut_iterations(trace)).has_trees
    }
    offsets = set(chains.values())
    if len(offsets) != 1 or not offsets <= {-1, 0}:
        told = ", ".join(f"{offset:+d} in {name}" for name, offset in chains.items()) or "no chain"
        rule = f"a chain at block B drafts B or B - 1 tokens, the same of all; drafts - B: {told}"
        raise ValueError(rule)
    return offsets.pop()


def _acceptance(trace: IterationTrace) -> AcceptanceCell:
    _, mean_accepted = accepting(trace)
    block, tree_size = cell_of(trace)
    tokens_per_step = trace.manifest.guaranteed_tokens + mean_accepted
    return AcceptanceCell(trace.manifest.task, block, tokens_per_step, tree_size)


def _candidates(captures: Sequence[IterationTrace]) -> int | None:
    """The most candidates of a position in the trees; None without trees."""
    found = []
    for trace in captures:
        if cell_of(trace)[1] is not None:
            given = trace.manifest.parameters.get(CANDIDATES)
            if isinstance(given, bool) or not isinstance(given, int) or given < 1:
                where = f"parameters.{CANDIDATES} of {trace.manifest.name}, a tree,"
                rule = f"{where} is a count, got {given!r}"
                raise ValueError(rule)
            found.append(given)
    return max(found, default=None)
