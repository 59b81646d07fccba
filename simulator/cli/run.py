"""`blockcast run`: simulate one scenario."""

from pathlib import Path

import click


@click.command()
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a field.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the result to a new folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(scenario: Path, settings: tuple[str, ...], out: Path | None, *, as_json: bool) -> None:
    """Simulate SCENARIO, a YAML file, and print throughput and latency."""
    from reports.text import print_run
    from simulator.result import run
    from simulator.result_folder import check_new, write
    from simulator.scenario_file import deployment_of

    deployment = deployment_of(scenario, settings)
    if out is not None:
        check_new(out)
    result = run(deployment, keep_steps=out is not None)
    if out is not None:
        write(result, out)
    if as_json:
        click.echo(result.to_json())
    else:
        print_run(result.summary)
