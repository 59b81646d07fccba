"""`blockcast calibrate`: an engine profile from measured points."""

from pathlib import Path

import click


@click.command()
@click.argument("points", type=click.Path(path_type=Path), required=False)
@click.option("--published", is_flag=True, help="Use the published cells kept for this engine.")
@click.option("--engine", default="ideal", show_default=True, help="Profile to start from.")
@click.option("--name", help="Name of the new profile; the file's stem when absent.")
@click.option("--fit", "fitted", default="step_s", show_default=True, help="Overheads to fit.")
@click.option("--source", default="", help="Where the points come from; the file when absent.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The new profile's file."
)
def command(  # noqa: PLR0913 (one argument per option)
    *,
    points: Path | None,
    published: bool,
    engine: str,
    name: str | None,
    fitted: str,
    source: str,
    output: Path,
) -> None:
    """Fit an engine's overheads to POINTS, a CSV file, and write the engine profile.

    Columns are scenario fields (model, hardware, decode.policy, workload.concurrency ...) and one
    measurement: output_tokens_per_s, step_latency_s, tpot_s or latency_s. The fit changes only the
    overheads named in --fit (comma-separated), all others become zero.
    """
    import dataclasses

    from reports.text import print_fit
    from simulator.calibrate import calibrate, parameters, write
    from simulator.documents import DocumentError, Mistake
    from simulator.library import ENGINES
    from simulator.points import published_points, read_points
    from simulator.progress import bar

    if (points is None) != published:
        message = "give either POINTS or --published"
        raise click.UsageError(message)
    if output.is_dir():
        raise DocumentError(str(output), [Mistake("", "is a folder; a file is needed")])
    names = parameters(fitted)
    base, name = ENGINES.get(engine), name or output.stem
    if name != base.name:
        told = f"{base.name} with overheads fitted to {source or points}"
        origin = f"blockcast calibrate, starting from {base.name}"
        base = dataclasses.replace(base, name=name, description=told, source=origin)
    found = read_points(points, engine=engine) if points else published_points(engine)
    with bar("simulating", len(found)) as advance:
        fit = calibrate(found, base, names, source=source or str(points), progress=advance)
    write(fit.engine, output)
    print_fit(
        [dataclasses.asdict(point) for point in found], fit.predicted, vars(fit.engine), str(output)
    )
