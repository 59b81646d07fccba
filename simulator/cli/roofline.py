"""`blockcast roofline`: what bounds each operation of a scenario."""

from pathlib import Path

import click


@click.command()
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a field.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Draw an SVG figure.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(
    scenario: Path, settings: tuple[str, ...], output: Path | None, *, as_json: bool
) -> None:
    """Show intensity, rates and bounds per operation of SCENARIO, half-way through its output."""
    import dataclasses
    import json

    from reports.roofline import draw
    from reports.text import print_roofline
    from simulator.documents import DocumentError, Mistake
    from simulator.roofline import roofline
    from simulator.scenario_file import deployment_of

    if output is not None and output.suffix != ".svg":
        raise DocumentError(str(output), [Mistake("", "the figure is an SVG; name it so")])
    deployment = deployment_of(scenario, settings)
    rows = [dataclasses.asdict(row) for row in roofline(deployment)]
    if not rows:
        what = "prefill alone emits everything; a roofline needs a decode step, so more tokens"
        raise DocumentError(str(scenario), [Mistake("workload.output_tokens", what)])
    hardware = deployment.hardware
    if output is not None:
        try:
            draw(rows, dataclasses.asdict(hardware.peaks), hardware.name, output)
        except OSError as error:
            what = f"cannot be written: {error.strerror}"
            raise DocumentError(str(output), [Mistake("", what)]) from error
    if as_json:
        peaks = dataclasses.asdict(hardware.peaks)
        answer = {"hardware": hardware.name, "peaks": peaks, "operations": rows}
        click.echo(json.dumps(answer, indent=2))
    else:
        print_roofline(rows, deployment.scenario.document(), deployment.most_together)
