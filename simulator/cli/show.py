"""`blockcast show`: everything about one named thing."""

from typing import Any

import click

from simulator.cli.list import KINDS


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of YAML.")
def command(kind: str, name: str, *, as_json: bool) -> None:
    """Show the thing of that KIND and NAME, with what follows from it."""
    import json

    import yaml

    from simulator.describe import describe

    described: dict[str, Any] = describe(kind, name)
    if as_json:
        click.echo(json.dumps(described, indent=2))
    else:
        click.echo(yaml.safe_dump(described, sort_keys=False, width=100), nl=False)
