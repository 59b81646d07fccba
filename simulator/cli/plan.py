"""`blockcast plan`: how many GPUs a load needs, or how much load some GPUs take."""

from pathlib import Path

import click

MORE_SEEDS = 5
"""Beyond those that every place has, while noise could decide."""


@click.command()
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option("--rate", type=float, help="Requests per second; the scenario's if absent.")
@click.option(
    "--slo",
    "slos",
    multiple=True,
    metavar="OBJECTIVE",
    help="A limit to keep, as ttft_p99=1s, tpot_p99=30ms or goodput>=99%; any number of them.",
)
@click.option(
    "--candidates",
    "file",
    type=click.Path(path_type=Path),
    help="YAML file of what to compare: points, grid, where, as a sweep has them.",
)
@click.option(
    "--over",
    multiple=True,
    metavar="KEY=[VALUE, ...]",
    help="Compare these values of a field, each with every other.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a field.")
@click.option(
    "--gpu-hour-cost",
    "prices",
    multiple=True,
    metavar="[HARDWARE=]COST",
    help="Of one GPU, in any currency: ranks by the cost of a million output tokens.",
)
@click.option(
    "--max-rate",
    "seeks_rate",
    is_flag=True,
    help="Find the highest rate instead, for --gpus or the scenario's own.",
)
@click.option("--gpus", type=click.IntRange(min=1), help="GPUs that there are, for --max-rate.")
@click.option(
    "--requests",
    type=click.IntRange(min=1),
    help="In every run; as many as are needed to tell if absent.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=2, max=100),
    default=3,
    show_default=True,
    help="Runs of a place at least; up to five more while noise could decide.",
)
@click.option(
    "--most-replicas",
    type=click.IntRange(min=1, max=1024),
    default=256,
    show_default=True,
    help="Where to stop looking.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), help="Processes; as many as cores if absent."
)
@click.option("--out", type=click.Path(path_type=Path), help="Write the plan to a new folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(  # noqa: PLR0913, PLR0917 (one per option)
    scenario: Path,
    rate: float | None,
    slos: tuple[str, ...],
    file: Path | None,
    over: tuple[str, ...],
    settings: tuple[str, ...],
    prices: tuple[str, ...],
    gpus: int | None,
    requests: int | None,
    seeds: int,
    most_replicas: int,
    workers: int | None,
    out: Path | None,
    *,
    seeks_rate: bool,
    as_json: bool,
) -> None:
    """Find the fewest replicas that serve a load of SCENARIO within its objectives, and rank.

    Every candidate is the scenario with some fields set. Each is simulated with more and fewer
    replicas until one number keeps every --slo and one fewer does not, with several seeds.
    """
    import json
    import os

    from reports.plan import print_plan, with_commands
    from simulator.documents import read_mapping
    from simulator.execution.pool import pool_of
    from simulator.plan.candidates import candidates_of
    from simulator.plan.evaluation import Effort
    from simulator.plan.options import (
        check_question,
        check_sought,
        objectives_for,
        over_of,
        rate_of,
    )
    from simulator.plan.plan import Question, plan
    from simulator.plan.plan_folder import write_plan
    from simulator.price import prices_of
    from simulator.progress import bar
    from simulator.result_folder import check_new
    from simulator.scenario import settings_of, with_settings

    base = with_settings(read_mapping(scenario), settings_of(settings))
    check_question(has_rate=rate is not None, has_gpus=gpus is not None, seeks_rate=seeks_rate)
    question = Question(
        objectives=objectives_for(slos, base),
        rate_per_s=rate_of(rate),
        is_for_highest_rate=seeks_rate,
        gpus=gpus,
        requests=requests,
        prices=prices_of(prices),
        effort=Effort(seeds, seeds + MORE_SEEDS, most_replicas),
    )
    if seeks_rate:
        check_sought(question.objectives)
    candidates = candidates_of(
        base, file, over_of(over), has_given_replicas=seeks_rate and gpus is None
    )
    if out is not None:
        check_new(out)
    with (
        bar("planning", len(candidates)) as advance,
        pool_of(workers or os.cpu_count() or 1) as pool,
    ):
        answer = plan(base, candidates, question, pool, advance=advance)
    told = with_commands(answer, str(scenario), settings)
    # What took long is told before it is written, which may fail.
    if as_json:
        click.echo(json.dumps(told, indent=2, allow_nan=False))
    else:
        print_plan(told)
    if out is not None:
        write_plan(told, out)
