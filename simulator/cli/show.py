"""`blockcast show`: everything about one named thing."""

from pathlib import Path
from typing import Any

import click

from simulator.cli.list import KINDS

# One thing is shown, so both are natural.
SINGULAR = {
    "model": "models",
    "engine": "engines",
    "policy": "policies",
    "router": "routers",
    "trace": "traces",
    "workload": "workloads",
    "what-if": "what-ifs",
    "study": "studies",
}


@click.command()
@click.argument("kind", type=click.Choice((*KINDS, *SINGULAR)))
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
@click.option(
    "--plot",
    "figure",
    type=click.Path(path_type=Path),
    help="Of hardware: draw its curves and points, as FILE.svg or FILE.png.",
)
def command(kind: str, name: str, *, as_json: bool, figure: Path | None) -> None:
    """Show the thing of that KIND and NAME, with what follows from it.

    Hardware and captured traces come as tables, everything else as YAML.
    """
    import json

    import yaml

    from simulator.describe import describe

    if figure is not None and kind != "hardware":
        what = f"only hardware has a figure, not {kind}"
        raise click.BadOptionUsage("--plot", what)
    kind = SINGULAR.get(kind, kind)
    described: dict[str, Any] = describe(kind, name)
    if figure is not None:
        _draw(name, figure)
    if as_json:
        click.echo(json.dumps(described, indent=2))
    elif kind == "hardware":
        from reports.hardware_text import print_hardware

        print_hardware(described)
    elif kind == "traces" and "records" in described:
        from reports.trace_text import print_trace

        print_trace(described)
    else:
        click.echo(yaml.safe_dump(described, sort_keys=False, width=100), nl=False)


def _draw(name: str, figure: Path) -> None:
    """Write the figure of a profile; raises DocumentError for the figure's or the points' file."""
    import dataclasses

    from reports.hardware import draw
    from reports.rendering import FORMATS
    from simulator.documents import DocumentError, Mistake
    from simulator.hardware_view import hardware_panels
    from simulator.hardware_view.measured import NO_POINTS, read_points
    from simulator.library import HARDWARE

    if figure.suffix not in FORMATS:
        what = f"the figure is {' or '.join(FORMATS)}; name it so"
        raise DocumentError(str(figure), [Mistake("", what)])
    profile = HARDWARE.get(name)
    beside = profile.points
    points = read_points(HARDWARE.path(name).parent / beside) if beside else NO_POINTS
    panels = [dataclasses.asdict(panel) for panel in hardware_panels(profile, points)]
    try:
        draw(panels, profile.name, profile.description, figure)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise DocumentError(str(figure), [Mistake("", what)]) from error
