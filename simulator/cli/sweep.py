"""`blockcast sweep`: many points of a space of scenarios, in one table."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from simulator.execution.pool import Pool
    from simulator.sweep.journal import Journal
    from simulator.sweep.outcome import Outcome
    from simulator.sweep.reading import Sweep


@click.command()
@click.argument("sweep")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of the table, and of what is needed to go on after an interruption.",
)
@click.option("--resume", is_flag=True, help="Go on with the points that --out has.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a field.")
@click.option(
    "--workers", type=click.IntRange(min=1), help="Processes; as many as cores if absent."
)
@click.option("--scheduler", metavar="ADDRESS", help="Run on the Dask cluster at this address.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(  # noqa: PLR0913 (one per option)
    sweep: str,
    out: Path,
    settings: tuple[str, ...],
    workers: int | None,
    scheduler: str | None,
    *,
    resume: bool,
    as_json: bool,
) -> None:
    """Run every point of SWEEP, a YAML file or the name of a study, and write one table.

    Points that are finished are on disk at once: a sweep that was interrupted, however it was, goes
    on with --resume and comes to the same table.
    """
    if workers is not None and scheduler is not None:
        what = "--workers are processes here, --scheduler knows its own; give one"
        raise click.UsageError(what)
    import json
    import sys

    from reports.sweep import answer, print_sweep
    from simulator.documents import DocumentError, Mistake
    from simulator.library import STUDIES
    from simulator.scenario import settings_of
    from simulator.sweep.folder import journal_of
    from simulator.sweep.reading import read_sweep
    from simulator.sweep.signals import StopAsked, stoppable
    from simulator.sweep.sweep import kept

    checked = read_sweep(STUDIES.path(sweep), settings_of(settings))
    with journal_of(out, checked, resume=resume) as journal:
        try:
            with stoppable():
                outcome = _run(checked, journal, out, workers, scheduler)
        except StopAsked as stop:
            click.echo(f"blockcast: stopped; {kept(journal, checked)}", err=True)
            sys.exit(128 + stop.number)
    if as_json:
        click.echo(json.dumps(answer(outcome, str(out)), indent=2, allow_nan=False))
    elif outcome.failed < outcome.points:
        print_sweep(outcome, str(out))
    if outcome.failed == outcome.points:
        mistakes = [
            Mistake("", f"{count} point{'s'[: count != 1]}: {error}")
            for error, count in outcome.errors
        ]
        where = f"{sweep}, all in {out}"
        raise DocumentError(where, mistakes)


def _run(
    checked: "Sweep", journal: "Journal", out: Path, workers: int | None, scheduler: str | None
) -> "Outcome":
    """Run what is missing and write the table."""
    from simulator.sweep.estimate import estimate
    from simulator.sweep.outcome import write_outcome
    from simulator.sweep.sweep import run_points

    total = len(checked.source)
    if len(journal) < total:
        with (
            _pool(workers, scheduler, total - len(journal)) as pool,
            estimate(total, len(journal)) as advance,
        ):
            run_points(checked, journal, pool, advance)
    return write_outcome(checked, journal, out)


def _pool(
    workers: int | None, scheduler: str | None, points: int
) -> "AbstractContextManager[Pool]":
    """Where *points* run; no more processes than points."""
    import os

    if scheduler is not None:
        from simulator.execution.cluster import cluster_of

        return cluster_of(scheduler)
    from simulator.execution.pool import pool_of

    return pool_of(min(workers or os.cpu_count() or 1, points))
