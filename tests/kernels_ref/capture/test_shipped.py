"""The shipped traces: they are those of the list, of the shipped checkpoints, and repeatable."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter

from kernels_ref.capture.shipped import shipped_traces
from kernels_ref.checkpoint import CHECKPOINTS, read_checkpoint_manifest
from kernels_ref.decoders import policy, policy_names
from simulator.scenario import settings_of
from tests.cli.command import call
from traces import DATA
from traces.block_trace import read_block_trace
from traces.writing import write_block_trace

ROOT = Path(__file__).parents[3]
SHIPPED = {trace.name: trace for trace in shipped_traces()}
SMALL = "ref-small"


def options(name: str) -> dict[str, list[str]]:
    """The options of a shipped trace: values by name."""
    given = SHIPPED[name].options
    found: dict[str, list[str]] = {}
    for option, value in zip(given[::2], given[1::2], strict=True):
        found.setdefault(option, []).append(value)
    return found


def _settings(parameters: Any) -> dict[str, Any]:
    """Parameters as a manifest has them."""
    return {key: value for key, value in vars(parameters).items() if key not in {"policy", "block"}}


def test_the_folder_holds_what_the_list_says() -> None:
    """No trace of the list is missing, none is there that cannot be made again."""
    assert len(SHIPPED) == len(shipped_traces())
    assert {path.name for path in DATA.glob("ref-*")} == set(SHIPPED)


def test_every_decoder_has_a_trace_at_its_defaults() -> None:
    """Each policy of the folder is captured with nothing set but what a paper varies."""
    plain = {
        options(name)["--decoder"][0]
        for name in SHIPPED
        if read_block_trace(DATA / name).manifest.parameters
        == _settings(policy(options(name)["--decoder"][0]).Parameters())
        and "--checkpoint" not in options(name)
    }
    assert plain == set(policy_names())


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_trace_is_what_its_line_says(name: str) -> None:
    """Parameters, batch and problems are the list's, and the weights are shipped too."""
    manifest = read_block_trace(DATA / name).manifest
    asked = options(name)
    chosen = policy(manifest.policy)
    assert [manifest.policy] == asked["--decoder"]
    settings: dict[str, Any] = settings_of(tuple(asked.get("--set", [])))
    parameters = TypeAdapter(chosen.Parameters).validate_python(settings)
    assert manifest.parameters == _settings(parameters)
    assert manifest.block_tokens == (parameters.block or 16)
    assert [str(manifest.batch)] == asked["--batch"]
    assert [str(manifest.counts.requests)] == asked["--problems"]
    checkpoint = asked.get("--checkpoint", [chosen.CHECKPOINT])[0]
    shipped = read_checkpoint_manifest(CHECKPOINTS / f"{checkpoint}.yaml")
    assert (manifest.checkpoint.name, manifest.checkpoint.sha256) == (
        shipped.name,
        shipped.sha256,
    )
    assert not manifest.partial


def test_capturing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    """A shipped trace made again is equal, to the byte where the same library writes it."""
    made = tmp_path / SMALL
    answer = call("capture", *SHIPPED[SMALL].options, "--out", made, "--json")
    assert (answer.code, answer.err) == (0, "")
    for table in ("requests", "blocks", "steps"):
        ours, theirs = made / f"{table}.parquet", DATA / SMALL / f"{table}.parquet"
        assert pq.read_table(ours).equals(pq.read_table(theirs))
        if pq.read_metadata(theirs).created_by == pq.read_metadata(ours).created_by:
            assert ours.read_bytes() == theirs.read_bytes()


def test_capturing_again_says_the_same(tmp_path: Path) -> None:
    """The manifest of a trace made again differs in software and bytes of tables at most."""
    made = tmp_path / SMALL
    call("capture", *SHIPPED[SMALL].options, "--out", made, "--json")
    ours, theirs = (
        {**vars(read_block_trace(folder).manifest), "software": {}, "tables": {}}
        for folder in (made, DATA / SMALL)
    )
    assert ours == theirs


def test_reading_and_writing_changes_no_byte(tmp_path: Path) -> None:
    """What is read of a shipped trace, written again, is the same trace."""
    trace = read_block_trace(DATA / SMALL)
    fields = {key: value for key, value in vars(trace.manifest).items() if key != "tables"}
    tables = {name: trace.table(name) for name in ("requests", "blocks", "steps")}
    write_block_trace(tmp_path / "again", fields, tables)
    again = read_block_trace(tmp_path / "again")
    assert all(again.table(name).equals(trace.table(name)) for name in tables)
    if (
        pq.read_metadata(DATA / SMALL / "steps.parquet").created_by
        == pq.read_metadata(tmp_path / "again/steps.parquet").created_by
    ):
        for path in (DATA / SMALL).iterdir():
            assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


@pytest.fixture(scope="module")
def page() -> ModuleType:
    """The script that writes the page's tables."""
    spec = importlib.util.spec_from_file_location(
        "reference_decoder", ROOT / "docs/reference_decoder.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_traces_numbers(page: ModuleType) -> None:
    """Every table of docs/reference-decoder.md is what the shipped traces give."""
    traces, rows = page.read_traces(DATA)
    text = page.PAGE.read_text(encoding="utf-8")
    assert text.count("<!-- table: ") == len(page.tables(rows, traces))
    assert page.with_tables(text, page.tables(rows, traces)) == text
