"""`blockcast list`: the names that scenarios may use."""

import click

KINDS = (
    "models",
    "hardware",
    "engines",
    "policies",
    "batching",
    "routers",
    "traces",
    "workloads",
    "what-ifs",
    "studies",
)


def names_of(kind: str) -> list[str]:
    """The shipped names of a kind."""
    from simulator import batching, decoding, routers, workloads
    from simulator.library import SHELVES

    folders = {
        "policies": decoding.names,
        "workloads": workloads.names,
        "batching": batching.names,
        "routers": routers.names,
    }
    return folders[kind]() if kind in folders else SHELVES[kind].names()


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(kind: str, *, as_json: bool) -> None:
    """List the names of a KIND of thing."""
    import json

    names = names_of(kind)
    click.echo(json.dumps(names) if as_json else "\n".join(names))
