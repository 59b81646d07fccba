"""`python -m hwprofiles.derive --measured DIR [--out DIR]`: refit and rewrite the profiles."""

from pathlib import Path

import click

import hwprofiles
from hwprofiles.derive.assemble import profiles
from hwprofiles.derive.measured import MissingTableError
from hwprofiles.fitting.document import document, write


@click.command()
@click.option(
    "--measured",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of the measured tables (CSV).",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=hwprofiles.DATA,
    help="Folder for the profiles; by default the package's own.",
)
def main(measured: Path, out: Path) -> None:
    """Fit every kernel of every GPU to the measured tables and write one profile per GPU."""
    if not measured.is_dir():
        rule = f"no folder {measured}; --measured needs the folder of the measured tables"
        raise click.ClickException(rule)
    try:
        made = profiles(measured)
    except MissingTableError as error:
        raise click.ClickException(str(error)) from error
    for profile in made:
        path = out / f"{profile.name}.yaml"
        write(path, document(profile))
        click.echo(path)


if __name__ == "__main__":
    main()
