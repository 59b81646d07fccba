"""Folder: what a sweep is and has come to, on disk, so that another process can go on with it."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import yaml

from simulator.documents import DocumentError, Mistake, parse, read_text
from simulator.result_folder import unwritable, whole_folder
from simulator.scenario_fields import leaves
from simulator.sweep.columns import Rows, write_table
from simulator.sweep.inputs import NAMING, digest_of, digests
from simulator.sweep.journal import Journal, opened
from simulator.sweep.reading import Sweep

KIND: Final = "sweep"
FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
SWEEP: Final = "sweep.yaml"
JOURNAL: Final = "finished.jsonl"
PARQUET: Final = "results.parquet"
CSV: Final = "results.csv"
TABLES: Final = (PARQUET, CSV)
MOST_DIFFERENCES: Final = 8
MADE_BY: Final = {
    "format": "has format",
    "blockcast": "was made by blockcast",
    "optuna": "was searched by optuna",
}


def identity(sweep: Sweep) -> dict[str, Any]:
    """What a folder must have been made from to be gone on with; raises DocumentError."""
    told = {name: value for name, value in sweep.document.items() if name != "note"}
    # Another version of what a search learns by may ask for other points.
    learning = {"optuna": version("optuna")} if sweep.file.search else {}
    return learning | {
        "kind": KIND,
        "format": FORMAT,
        "blockcast": version("blockcast"),
        "sweep": digest_of(json.dumps(told, default=str)),
        "files": digests(sweep.named(NAMING)),
        "points": len(sweep.source),
    }


@contextmanager
def journal_of(folder: Path, sweep: Sweep, *, resume: bool) -> Iterator[Journal]:
    """The journal in *folder*, which is made when it is not there; nobody else has it meanwhile.

    Raises DocumentError when the folder is there and not to be gone on with, when another sweep
    made it, and when it cannot be written.
    """
    own = identity(sweep)
    with ExitStack() as stack:
        try:
            if not resume or not folder.exists():
                _make(folder, sweep, own)
            _check_same(folder, sweep, own)
            journal = stack.enter_context(opened(folder / JOURNAL, len(sweep.source)))
        except OSError as error:
            raise unwritable(folder, error) from error
        yield journal


def write_results(folder: Path, rows: Rows, columns: Mapping[str, type]) -> None:
    """Write the table, both files whole or neither as yet; raises OSError."""
    drafts = [folder / f".{name}.part" for name in TABLES]
    try:
        write_table(drafts[0], drafts[1], rows, columns)
        for draft, name in zip(drafts, TABLES, strict=True):
            with draft.open("rb") as written:
                os.fsync(written.fileno())
            draft.replace(folder / name)
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


def _make(folder: Path, sweep: Sweep, own: Mapping[str, Any]) -> None:
    """A new folder with everything that it begins with; raises DocumentError."""
    with whole_folder(folder) as draft:
        document = yaml.safe_dump(sweep.document, sort_keys=False)
        (draft / SWEEP).write_text(document, encoding="utf-8")
        (draft / MANIFEST).write_text(json.dumps(own, indent=2) + "\n", encoding="utf-8")
        (draft / JOURNAL).touch()


def _check_same(folder: Path, sweep: Sweep, own: Mapping[str, Any]) -> None:
    """Raise DocumentError unless *folder* was made by this very sweep."""
    found = _manifest(folder)
    wrong = [] if found == own else list(_differences(folder, sweep, own, found))
    if wrong:
        more = len(wrong) - MOST_DIFFERENCES
        rest = [Mistake("", f"and {more} more differences")] if more > 0 else []
        raise DocumentError(str(folder), [*wrong[:MOST_DIFFERENCES], *rest])


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    found: Any = None
    with suppress(DocumentError, ValueError, RecursionError):
        found = json.loads(read_text(path))
    if not isinstance(found, dict) or found.get("kind") != KIND:
        what = f"is no result of a sweep: it has no {MANIFEST} of one"
        raise DocumentError(str(folder), [Mistake("", what)])
    if not (folder / JOURNAL).is_file():
        what = f"is no result of a sweep: it has no {JOURNAL}"
        raise DocumentError(str(folder), [Mistake("", what)])
    return found


def _differences(
    folder: Path, sweep: Sweep, own: Mapping[str, Any], found: Mapping[str, Any]
) -> Iterator[Mistake]:
    for name, words in MADE_BY.items():
        if found.get(name) != own.get(name):
            yield Mistake("", f"{words} {found.get(name)}, this is {own.get(name)}")
    if found.get("sweep") != own["sweep"]:
        yield from _other_sweep(folder, sweep)
    files = found.get("files")
    before = files if isinstance(files, dict) else {}
    for name in dict.fromkeys((*before, *own["files"])):
        if name in before and name in own["files"] and before[name] != own["files"][name]:
            yield Mistake("", f"what is in {name} has changed since")
    if found.get("points") != own["points"] and found.get("sweep") == own["sweep"]:
        yield Mistake("", f"has {found.get('points')} points, this sweep {own['points']}")


def _other_sweep(folder: Path, sweep: Sweep) -> Iterator[Mistake]:
    """What differs in the sweeps themselves, by field."""
    try:
        document = parse(read_text(folder / SWEEP), str(folder / SWEEP))
    except DocumentError:
        document = None
    if not isinstance(document, dict):
        yield Mistake("", f"was made by another sweep; its {SWEEP} cannot be read")
        return
    # As it would be read: tuples are lists in YAML.
    own = parse(yaml.safe_dump(sweep.document, sort_keys=False), "")
    theirs, ours = dict(leaves(document)), dict(leaves(own))
    changed = [n for n in dict.fromkeys((*ours, *theirs)) if theirs.get(n) != ours.get(n)]
    told = [name for name in changed if name != "note"] or ["the order of its fields"]
    for name in told:
        yield Mistake(name, "differs: the folder was made by another sweep")
