"""`blockcast capture`: run a reference decoder and keep what it did as a trace."""

import os
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kernels_ref.capture.plan import Plan
    from kernels_ref.capture.prompts import Prompt
    from kernels_ref.capture.source import Source
    from kernels_ref.decoders import Policy

# By their files, so that help needs no torch.
DECODERS = sorted(
    module.name.replace("_", "-")
    for module in pkgutil.iter_modules([str(Path(__file__).parents[2] / "kernels_ref/decoders")])
)
MOST_THREADS = 1024
MOST_PROBLEMS = 100_000
MOST_SEED = 2**32 - 1
MOST_TOKENS = 1_000_000
TASK = "held-out word problems"
ABOUT = ("policy", "parameters", "block_tokens", "checkpoint", "partial", "warnings")
"""Of the manifest, in front of the statistics in JSON."""


@click.command()
@click.option("--decoder", required=True, metavar="POLICY", help=f"One of {', '.join(DECODERS)}.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A hyperparameter.")
@click.option(
    "--checkpoint",
    metavar="NAME|FILE|FOLDER",
    help="A shipped checkpoint, the manifest of one, or a Hugging Face folder; the one that was"
    " trained for the policy when absent.",
)
@click.option("--family", help="Of a Hugging Face folder; found in its config.json when absent.")
@click.option(
    "--prompts",
    "prompts_file",
    type=click.Path(path_type=Path),
    help="Decode these JSON lines and not the task's held-out problems.",
)
@click.option("--problems", default=64, show_default=True, help="Most prompts to decode.")
@click.option("--batch", default=8, show_default=True, help="Rows that are decoded together.")
@click.option("--seed", default=0, show_default=True, help="Of the problems, and of draws.")
@click.option("--output-limit", default=112, show_default=True, help="Most tokens of an answer.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float64",
    show_default=True,
    help="Arithmetic; in float64 a trace is the same on any machine.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, MOST_THREADS),
    default=1,
    show_default=True,
    help="Of the CPU.",
)
@click.option("--limit", help="Stop after this long, as 90s or 5m, with a partial trace.")
@click.option("--resume", is_flag=True, help="Go on with the partial trace in the folder.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the trace.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(
    *,
    out: Path,
    resume: bool,
    limit: str | None,
    as_json: bool,
    **asked: Any,  # noqa: ANN401 (the options that decide what is decoded)
) -> None:
    """Decode prompts with a real model by POLICY and write the trace to a new folder.

    A trace of a block decoder holds, for every forward of every block, how many masks were ready
    before the update, and what was revealed, edited and committed. One of a speculative decoder
    holds what every iteration drafted, accepted and emitted. A wrong --set names all settings that
    the decoder has. Needs torch.
    """
    import json

    from reports.trace_text import print_trace
    from simulator.describe import describe
    from simulator.documents import DocumentError, Mistake
    from simulator.progress import share_bar
    from simulator.quantities import time_span_s
    from simulator.torch_extra import need_torch

    limit_s = time_span_s("--limit", limit) if limit else None
    need_torch("capture")
    from kernels_ref.capture.run import CaptureError, capture
    from traces.trace_error import TraceError

    try:
        plan = _plan(_name_of(out), **asked)
        total = len(plan.prompts)
        with share_bar("decoding") as progress:
            capture(
                plan,
                out,
                resume=resume,
                limit_s=limit_s,
                report=lambda done: progress(done / total, f"{done} of {total}"),
            )
        answer = describe("traces", f"{out}/")
    except (CaptureError, TraceError) as error:
        raise DocumentError("capture", [Mistake("", str(error))]) from error
    except KeyboardInterrupt as stop:
        what = "interrupted before a batch was finished; nothing was written"
        raise DocumentError("capture", [Mistake("", what)]) from stop
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise DocumentError(str(out), [Mistake("", what)]) from error
    if as_json:
        about = {name: answer[name] for name in ABOUT}
        click.echo(json.dumps({**about, **answer["derived"]}, indent=2))
    else:
        print_trace(answer)


def _name_of(path: Path) -> str:
    """The last part of a path as text, whatever bytes it has."""
    return os.fsencode(path.absolute().name).decode("utf-8", "replace") or "trace"


def _plan(  # noqa: PLR0913, PLR0917 (one argument per option)
    name: str,
    decoder: str,
    settings: tuple[str, ...],
    checkpoint: str | None,
    family: str | None,
    prompts_file: Path | None,
    problems: int,
    batch: int,
    seed: int,
    output_limit: int,
    dtype: str,
    threads: int,
) -> "Plan":
    """Everything resolved; raises DocumentError with what is wrong."""
    from kernels_ref.capture.plan import Plan
    from simulator.documents import DocumentError, Mistake

    policy = _policy(decoder)
    mistakes = [
        Mistake(option, f"is {least} to {most}, got {value}")
        for option, value, least, most in (
            ("--problems", problems, 1, MOST_PROBLEMS),
            ("--batch", batch, 1, MOST_PROBLEMS),
            ("--seed", seed, 0, MOST_SEED),
            ("--output-limit", output_limit, 1, MOST_TOKENS),
        )
        if not least <= value <= most
    ]
    if mistakes:
        raise DocumentError("capture", mistakes)
    source = _source(checkpoint or policy.CHECKPOINT, family, dtype, threads)
    parameters = _parameters(policy, settings, source.thresholds.get(decoder, {}))
    prompts, task = _prompts(prompts_file, problems, seed, checkpoint)
    plan = Plan(
        name=name,
        policy=policy,
        parameters=parameters,
        source=source,
        prompts=prompts,
        task=task,
        batch=batch,
        seed=seed,
        output_tokens=output_limit,
        dtype=dtype,
    )
    try:
        plan.check()
    except ValueError as error:
        raise DocumentError("capture", [Mistake("", str(error))]) from error
    return plan


def _policy(name: str) -> "Policy":
    from kernels_ref.decoders import policy, policy_names
    from simulator.documents import DocumentError, Mistake, known

    if name not in policy_names():
        what = known(name, policy_names(), "reference decoder")
        raise DocumentError("--decoder", [Mistake("", what)])
    return policy(name)


def _parameters(
    policy: "Policy", settings: tuple[str, ...], defaults: "Mapping[str, float]"
) -> Any:  # noqa: ANN401 (the policy's own)
    """The policy's parameters: as set, else as the model's family has them, else the policy."""
    from simulator.documents import DocumentError, check
    from simulator.scenario import settings_of

    parameters, mistakes = check(policy.Parameters, {**defaults, **settings_of(settings)})
    if mistakes:
        raise DocumentError("--set", mistakes)
    return parameters


def _source(checkpoint: str, family: str | None, dtype: str, threads: int) -> "Source":
    """The model that answers, a shipped one by its name."""
    from kernels_ref.capture.source import shipped_checkpoints, shipped_path, source_at
    from kernels_ref.checkpoint import CheckpointError
    from kernels_ref.outside import OutsideError
    from simulator.documents import DocumentError, Mistake, known
    from simulator.library import is_path

    shipped = shipped_checkpoints()
    path = shipped_path(checkpoint) if checkpoint in shipped else Path(checkpoint)
    if checkpoint not in shipped and not is_path(checkpoint) and not path.is_dir():
        raise DocumentError("--checkpoint", [Mistake("", known(checkpoint, shipped, "checkpoint"))])
    if family is not None and not path.is_dir():
        what = f"is of a Hugging Face folder, and {checkpoint} is none"
        raise DocumentError("--family", [Mistake("", what)])
    try:
        return source_at(path, family=family, dtype=dtype, threads=threads)
    except (CheckpointError, OutsideError) as error:
        raise DocumentError("--checkpoint", [Mistake("", str(error))]) from error


def _prompts(
    file: Path | None, problems: int, seed: int, checkpoint: str | None
) -> "tuple[Sequence[Prompt], str]":
    """The prompts and what they are."""
    from kernels_ref.capture.prompts import PromptsError, from_file, held_out, tokens_sha256
    from kernels_ref.outside import tokenizer
    from kernels_ref.task.vocabulary import encode_text
    from simulator.documents import DocumentError, Mistake

    folder = Path(checkpoint) if checkpoint and Path(checkpoint).is_dir() else None
    if file is None and folder is not None:
        what = "a Hugging Face model has no task of ours: name a file of prompts"
        raise DocumentError("--prompts", [Mistake("", what)])
    if file is None:
        return held_out(problems, seed), TASK
    encode = encode_text if folder is None else tokenizer(folder)
    try:
        prompts = from_file(file, problems, encode)
    except PromptsError as error:
        raise DocumentError(str(file), [Mistake("", str(error))]) from error
    return prompts, f"prompts of {_name_of(file)}, SHA-256 of their tokens {tokens_sha256(prompts)}"
