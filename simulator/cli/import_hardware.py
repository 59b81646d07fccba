"""`blockcast import-hardware`: a hardware profile from tables that others measured."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from hwprofiles.importers.imported import Imported
    from hwprofiles.importers.known_gpus import Chip

Function = TypeVar("Function", bound=Callable[..., None])
TOLD = "the command line"
CHIP = (
    click.option("--l2-bytes", help="Last-level cache, as 50MB; for a GPU that is not known here."),
    click.option("--multiprocessors", type=click.IntRange(1), help="The same of its processors."),
)
DESTINATION = (
    click.option("--name", help="Name of the profile; that of its file or of the GPU if absent."),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="The profile's file, NAME.yaml if absent; its points go beside it.",
    ),
    click.option("--force", is_flag=True, help="Write over files that exist."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead."),
)


def _options(function: Function) -> Function:
    """The options that both sources have, after those of their own."""
    for option in reversed((*CHIP, *DESTINATION)):
        function = option(function)
    return function


@click.group()
def command() -> None:
    """Fit a hardware profile to tables that others measured; no GPU is needed.

    The points that its curves are fitted to go into a Parquet file beside it.
    """


@command.command()
@click.option("--system", required=True, help="A system of the package, as b200_sxm.")
@click.option("--framework", "frameworks", multiple=True, help="Only what this one measured.")
@_options
def aiconfigurator(  # noqa: PLR0913 (one argument per option)
    *,
    system: str,
    frameworks: tuple[str, ...],
    l2_bytes: str | None,
    multiprocessors: int | None,
    name: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Use NVIDIA's tables: pip install 'blockcast[aiconfigurator]'."""
    with _as_mistakes():
        from hwprofiles.importers.aiconfigurator import read
        from hwprofiles.importers.known_gpus import CHIPS
        from hwprofiles.importers.package import installed

        found = installed().system(system)
        chip = _chip(system, CHIPS.get(system), l2_bytes, multiprocessors)
        _make(
            lambda named, points: read(
                found, chip, name=named, frameworks=frameworks, points=points
            ),
            f"aiconfigurator --system {system}",
            name=name or _stem(output, system),
            output=output,
            force=force,
            as_json=as_json,
        )


@command.command()
@click.option(
    "--from",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    help="Vidur's folder of this GPU, as data/profiling/compute/h100.",
)
@click.option("--gpu", required=True, help="The GPU they are of: a100, a40, h100, or another.")
@click.option("--memory-bytes", help="Memory, as 80GB; for a GPU that is not known here.")
@_options
def vidur(  # noqa: PLR0913 (one argument per option)
    *,
    folder: Path,
    gpu: str,
    memory_bytes: str | None,
    l2_bytes: str | None,
    multiprocessors: int | None,
    name: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Use the tables that Vidur keeps: products, attention, norms, rotary and activations."""
    from simulator.documents import DocumentError, Mistake

    with _as_mistakes():
        from dataclasses import replace

        from hwprofiles.importers.known_gpus import BOARDS, Board
        from hwprofiles.importers.vidur import read

        if not folder.is_dir():
            raise DocumentError(str(folder), [Mistake("", "is no folder; --from needs one")])
        board = BOARDS.get(gpu)
        memory = _bytes("--memory-bytes", memory_bytes)
        if memory is None and board is None:
            what = f"{_known(gpu, list(BOARDS))}; for another give its --memory-bytes"
            raise DocumentError("--gpu", [Mistake("", what)])
        chip = _chip(gpu, board.chip if board else None, l2_bytes, multiprocessors)
        board = replace(board, chip=chip) if board else Board(gpu, chip, memory or 0.0, TOLD)
        if memory is not None:
            board = replace(board, memory_bytes=memory)
        _make(
            lambda named, points: read(folder, board, name=named, points=points),
            f"vidur --gpu {gpu}",
            name=name or _stem(output, gpu),
            output=output,
            force=force,
            as_json=as_json,
        )


def _stem(output: Path | None, gpu: str) -> str:
    return output.stem if output else gpu.replace("_", "-")


def _make(  # noqa: PLR0913 (what both sources share)
    read: Callable[[str, str], "Imported"],
    made_by: str,
    *,
    name: str,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Read the tables, fit, write both files, and tell what came out."""
    import json

    from reports.imported import print_imported
    from simulator.imported import Destination, import_summary
    from simulator.progress import bar

    destination = Destination(output or Path(f"{name}.yaml"))
    destination.check(is_forced=force)
    with bar("reading tables, fitting curves", 2) as advance:
        imported = read(name, destination.points.name)
        advance()
        profile = imported.profile()
        advance()
    destination.save(profile, imported, f"blockcast import-hardware {made_by}")
    answer = import_summary(profile, imported, destination)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        print_imported(answer)


def _chip(
    gpu: str, known: "Chip | None", l2_bytes: str | None, multiprocessors: int | None
) -> "Chip":
    """What is known of the GPU, what the user gives first; raises DocumentError for neither."""
    from hwprofiles.importers.known_gpus import Chip
    from simulator.documents import DocumentError, Mistake

    cache = _bytes("--l2-bytes", l2_bytes)
    if known is None and (cache is None or multiprocessors is None):
        what = "its last-level cache and multiprocessors are not known here; give both"
        raise DocumentError(gpu, [Mistake("--l2-bytes, --multiprocessors", what)])
    if known is None:
        return Chip(cache or 0.0, multiprocessors or 0, TOLD)
    is_given = cache is not None or multiprocessors is not None
    return Chip(
        cache or known.last_level_cache_bytes,
        multiprocessors or known.multiprocessors,
        f"{TOLD}, and {known.source}" if is_given else known.source,
    )


def _bytes(option: str, text: str | None) -> float | None:
    from simulator.quantities import byte_size

    return None if text is None else byte_size(option, text)


def _known(name: str, choices: list[str]) -> str:
    from simulator.documents import known

    return known(name, choices, "GPU")


@contextmanager
def _as_mistakes() -> Iterator[None]:
    """What is wrong with tables, told as what the user gave; a package that is missing too."""
    from hwprofiles.fitting.points import MeasurementError
    from hwprofiles.importers.package import NotInstalledError, UnknownNameError
    from hwprofiles.importers.table import TableError
    from simulator.documents import DocumentError, Mistake, known

    try:
        yield
    except TableError as error:
        raise DocumentError(error.origin, [Mistake("", error.what)]) from error
    except UnknownNameError as error:
        what = known(error.name, error.known, error.kind)
        raise DocumentError("import-hardware", [Mistake(f"--{error.kind}", what)]) from error
    except (NotInstalledError, MeasurementError) as error:
        raise DocumentError("import-hardware", [Mistake("", str(error))]) from error
