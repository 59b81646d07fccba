"""Speculative decoders and autoregression: what every iteration drafted, accepted and emitted."""

from dataclasses import asdict
from typing import Any

from kernels_ref.capture.plan import Plan
from kernels_ref.capture.prompts import Prompt
from kernels_ref.capture.records import TableRows
from kernels_ref.capture.verdicts import told
from kernels_ref.decoders import Speculator, speculator
from kernels_ref.decoding.continuation import Continuation


def check(plan: Plan) -> None:
    """Raise ValueError for parameters that the model rules out."""
    plan.parameters.check(plan.source.model.facts)


def request(plan: Plan, problem: int) -> Continuation:
    """The continuation of a prompt; raises ValueError as `Continuation` does."""
    return Continuation(
        plan.prompts[problem].tokens,
        facts=plan.source.model.facts,
        output_tokens=plan.output_tokens,
        extra_tokens=_speculator(plan).extra_tokens(plan.parameters, plan.block_tokens),
        request=problem,
        seed=plan.seed,
    )


def rows_of(request: Continuation, prompt: Prompt, batch: int, row: int) -> TableRows:
    """What the tables say of one continuation, the *row* of its *batch*."""
    record, number = request.record, request.request
    kinds = [step.kind for step in record.steps]
    about = {
        **told(request, prompt, batch, row),
        "iterations": len(record.iterations),
        **{f"{kind}_forwards": kinds.count(kind) for kind in ("prefill", "draft", "verify")},
    }
    iterations = enumerate(record.iterations)
    steps = enumerate(record.steps)
    return {
        "requests": [about],
        "iterations": [
            {"request": number, "iteration": i, **asdict(each)} for i, each in iterations
        ],
        "steps": [{"request": number, "step": i, **asdict(step)} for i, step in steps],
    }


def described(plan: Plan) -> dict[str, Any]:
    """The target, and what an iteration emits at least."""
    return {
        "target": asdict(plan.source.target),
        "guaranteed_tokens": _speculator(plan).GUARANTEED_TOKENS,
    }


def warnings(plan: Plan) -> list[str]:
    """A larger block than the drafter's, or a target that is no next-token model."""
    said = []
    trained = plan.source.model.facts.block_tokens
    if plan.policy.DRAFTER is not None and plan.block_tokens > trained:
        said.append(
            f"block {plan.block_tokens}, but the drafter was trained for blocks of up to {trained}"
        )
    if plan.source.prompt != plan.policy.PROMPT:
        said.append(
            f"{plan.parameters.policy} decodes from left to right, but the checkpoint was trained "
            f"behind a {plan.source.prompt} prompt"
        )
    return said


def _speculator(plan: Plan) -> Speculator:
    return speculator(plan.parameters.policy)
