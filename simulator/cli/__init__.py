"""The command line, one module per command: a module `name.py` has the click command `command`.

A command imports what it needs inside its function, so that --help and list stay fast.
"""

import errno
import importlib
import pkgutil
import sys
from typing import Any

import click

from simulator.documents import DocumentError


class CommandFolder(click.Group):
    """A group whose commands are the modules of this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's interface)
        """The module names."""
        return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The module's command; None for a name that is no module."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module: Any = importlib.import_module(f"{__name__}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command


@click.group(cls=CommandFolder, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="blockcast")
def blockcast() -> None:
    """Predict how fast a multi-token LLM decoder serves, without a GPU.

    Answers come from measured kernels, published or captured acceptance and a discrete-event
    simulation; every one says which inputs it rests on.
    """


def main() -> None:
    """Run the command line; exit 1 with a message when what the user gave is wrong."""
    try:
        blockcast()
    except DocumentError as error:
        click.echo(f"blockcast: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        # Where an answer goes may be full; everything else that is read or written says what it is.
        if error.errno != errno.ENOSPC:
            raise
        click.echo(f"blockcast: the answer cannot be written: {error.strerror}", err=True)
        sys.exit(1)
