"""Block decoders: what became of every block, forward by forward."""

from dataclasses import asdict
from typing import Any

from kernels_ref.capture.plan import Plan
from kernels_ref.capture.prompts import Prompt
from kernels_ref.capture.records import TableRows
from kernels_ref.capture.verdicts import told
from kernels_ref.decoding.sequence import Sequence


def check(plan: Plan) -> None:
    """Nothing that a model could rule out."""


def request(plan: Plan, problem: int) -> Sequence:
    """The sequence of a prompt; raises ValueError as `Sequence` does."""
    return Sequence(
        plan.prompts[problem].tokens,
        facts=plan.source.model.facts,
        block_tokens=plan.block_tokens,
        output_tokens=plan.output_tokens,
        request=problem,
        seed=plan.seed,
        from_prompt=plan.policy.PROMPT != "block-causal",
    )


def rows_of(request: Sequence, prompt: Prompt, batch: int, row: int) -> TableRows:
    """What the tables say of one sequence, the *row* of its *batch*."""
    record, number = request.record, request.request
    kinds = [forward.kind for forward in record.forwards]
    about = {
        **told(request, prompt, batch, row),
        "prefill_forwards": kinds.count("prefill"),
        "denoise_forwards": kinds.count("denoise") + kinds.count("fused-store"),
        "store_forwards": kinds.count("store"),
    }
    blocks = enumerate(record.blocks)
    steps = enumerate(record.forwards)
    return {
        "requests": [about],
        "blocks": [{"request": number, "block": i, **asdict(block)} for i, block in blocks],
        "steps": [{"request": number, "step": i, **asdict(step)} for i, step in steps],
    }


def described(plan: Plan) -> dict[str, Any]:  # noqa: ARG001 (the interface)
    """Nothing beyond what every trace says."""
    return {}


def warnings(plan: Plan) -> list[str]:
    """Another block than the checkpoint's, or another prompt."""
    said = []
    trained = plan.source.model.facts.block_tokens
    if plan.block_tokens != trained:
        said.append(
            f"block {plan.block_tokens}, but the checkpoint was trained for blocks of {trained}"
        )
    if plan.source.prompt != plan.policy.PROMPT:
        said.append(
            f"{plan.parameters.policy} decodes behind a {plan.policy.PROMPT} prompt, but the "
            f"checkpoint was trained behind a {plan.source.prompt} one"
        )
    return said
