"""Replay of a captured trace of iterations through its policy, without any hardware."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from simulator import decoding, library
from simulator.documents import DocumentError, Mistake, check, known, shown
from simulator.replay.iteration_choice import captured_shape, shape_mistakes
from simulator.replay.iteration_pace import IterationPace, decoded_tokens
from simulator.replay.totals import (
    BATCH,
    EXACT,
    POLICY,
    batch_forwards,
    batches_of,
    count_rule,
    plain,
    policy_mistake,
)
from simulator.request import Request
from simulator.schedule import QUERY, Schedule
from traces.columns import among, numbers
from traces.iteration_manifest import IterationManifest
from traces.iteration_trace import IterationTrace
from traces.verdicts import accuracy

FREE: Final = (BATCH, "block")
"""What a replay may change."""


@dataclass(frozen=True)
class IterationReplay:
    """What the requests of a trace come to under the policy and settings asked for."""

    replay: str
    """exact or counterfactual."""
    requests: int
    output_tokens: int
    """As captured: texts are taken to stay what they were."""
    forwards: int
    """Of all requests, prefill included."""
    batch_forwards: int
    """Of whole batches, prefill included."""
    tokens_per_step: float | None
    """Over iterations that the end of an output does not cut; None without any."""
    tokens_per_forward: float | None
    """Over forwards of requests that are no prefill; None without any."""
    accuracy: dict[str, float | None]
    """As captured; None where what was decoded would differ."""
    warnings: tuple[str, ...]
    schedules: tuple[Schedule, ...]
    """Of each request, in the order of the trace."""

    def document(self) -> dict[str, Any]:
        """The summary as what JSON holds."""
        return plain(self, "schedules")


@dataclass(frozen=True)
class _Asked:
    """The captured parameters with the settings put in place."""

    policy: str
    trace: str | None
    batch: int
    block: int
    top_k: int | None = None
    tree_size: int | None = None

    def parameters(self) -> Any:  # noqa: ANN401 (of the policy)
        """Those of the policy; raises DocumentError for values that it does not take."""
        schema = decoding.policy(self.policy).Parameters
        names = {name for name in schema.__dataclass_fields__ if hasattr(self, name)}
        given = {name: getattr(self, name) for name in names}
        parameters, mistakes = check(schema, given)
        if mistakes:
            raise DocumentError("replay", mistakes)
        return parameters


def replay_iterations(trace: IterationTrace, settings: Mapping[str, object]) -> IterationReplay:
    """Schedule every request of *trace* again, at another batch or a smaller block of a chain.

    At a smaller block a request goes through its own iterations, cut short. Rows of a batch go on
    at their own pace from a common prefill, so a batch has the forwards of its slowest row. Raises
    DocumentError for settings that no replay can answer.
    """
    asked = _asked(trace.manifest, settings)
    parameters = asked.parameters()
    forgone = getattr(parameters, "FORGONE_TOKENS", 0)
    pace = IterationPace(trace, asked.block, repeats=True, forgone_tokens=forgone)
    if pace.is_cut_short and not len(pace.whole.row):
        rule = f"{trace.manifest.name} has no iteration that the end of an output did not cut"
        raise DocumentError("replay", [Mistake("block", rule)])
    setting = decoding.Setting(pace, library.ENGINES.get(library.IDEAL))
    schedule = decoding.policy(asked.policy).schedule
    schedules = tuple(schedule(each, parameters, setting) for each in captured_requests(trace))
    forwards = np.array([_decode_forwards(each) for each in schedules], dtype=np.int64)
    emitted = sum(int(each.emitted_tokens.sum()) for each in schedules)
    in_batches = batch_forwards(
        batches_of(trace, asked.batch), numbers(trace.requests, "prefill_forwards"), forwards
    )
    if pace.replay == EXACT:
        _check_counted(trace, asked, schedules, in_batches)
    verdict = accuracy(trace.requests)
    return IterationReplay(
        replay=pace.replay,
        requests=len(schedules),
        output_tokens=trace.manifest.counts.output_tokens,
        forwards=int(forwards.sum()) + trace.manifest.counts.prefill_forwards,
        batch_forwards=in_batches,
        tokens_per_step=pace.mean_tokens if len(pace.whole.row) else None,
        tokens_per_forward=emitted / int(forwards.sum()) if forwards.any() else None,
        accuracy=verdict if pace.replay == EXACT else dict.fromkeys(verdict),
        warnings=tuple(pace.warnings),
        schedules=schedules,
    )


def _check_counted(
    trace: IterationTrace, asked: _Asked, schedules: Sequence[Schedule], in_batches: int
) -> None:
    """Raise DocumentError where an exact replay has other totals than the trace."""
    counts, verify = trace.manifest.counts, among(trace.steps, "kind", "verify")
    forwards = sum(map(_decode_forwards, schedules))
    queries = sum(int(s.passes[-1].loads[QUERY].sum()) for s in schedules)
    found = {
        "draft and verify forwards": (forwards, counts.draft_forwards + counts.verify_forwards),
        "query tokens of verify forwards": (
            queries,
            int(numbers(trace.steps, "query_tokens")[verify].sum()),
        ),
    }
    if asked.batch == trace.manifest.batch:
        found["batch forwards"] = in_batches, counts.batch_forwards
    for name, (replayed, counted) in found.items():
        if replayed != counted:
            rule = f"{asked.policy} at block {asked.block} has {replayed} {name}, got {counted}"
            raise DocumentError(trace.manifest.name, [Mistake("", rule)])


def captured_requests(trace: IterationTrace) -> list[Request]:
    """The requests of *trace*, each to repeat itself, with their end tokens counted as output."""
    prompt, output = numbers(trace.requests, "prompt_tokens"), decoded_tokens(trace)
    return [
        Request(row, int(prompt[row]), int(output[row]), source=row)
        for row in range(trace.requests.num_rows)
    ]


def _decode_forwards(schedule: Schedule) -> int:
    return schedule.n_steps * sum(each.launches for each in schedule.passes)


def _asked(manifest: IterationManifest, settings: Mapping[str, object]) -> _Asked:
    """The captured parameters with *settings*; raises DocumentError with every mistake in them."""
    if manifest.policy not in decoding.names():
        what = known(manifest.policy, decoding.names(), "policy")
        raise DocumentError(manifest.name, [Mistake("policy", what)])
    shape = captured_shape(manifest)
    policy: Any = settings.get(POLICY, manifest.policy)
    mistake = policy_mistake(policy, manifest.policy, _policies(manifest.policy))
    if mistake is not None:
        raise DocumentError(manifest.name, [mistake])
    settings = {name: value for name, value in settings.items() if name != POLICY}
    mistakes = [each for name in settings if (each := _mistake(manifest, name, settings[name]))]
    if not mistakes:
        given = {"batch": manifest.batch} | shape | dict(settings)
        fields = {name: given[name] for name in _Asked.__dataclass_fields__ if name in given}
        asked = _Asked(policy, None, **fields)
        mistakes = list(shape_mistakes(asked, manifest))
    if mistakes:
        raise DocumentError(manifest.name, mistakes)
    return asked


def _policies(captured: str) -> list[str]:
    """The policies that a trace of the *captured* one tells of: itself, and those that go by it."""
    going_by = [
        name
        for name in decoding.names()
        if getattr(decoding.policy(name).Parameters, "TRACES_OF", None) == captured
    ]
    return [captured, *going_by]


def _mistake(manifest: IterationManifest, name: str, value: object) -> Mistake | None:
    """What is wrong with one setting, taken by itself."""
    captured = {"batch": manifest.batch} | captured_shape(manifest) | dict(manifest.parameters)
    if name not in captured:
        return Mistake(name, known(name, captured, "setting"))
    if name not in FREE:
        at = f"the trace was captured at {name} {shown(captured[name])}"
        what = f"{at}, got {shown(value)}; capture another, a replay may change {', '.join(FREE)}"
        return None if value == captured[name] else Mistake(name, what)
    rule = count_rule(value)
    return None if rule is None else Mistake(name, rule)
