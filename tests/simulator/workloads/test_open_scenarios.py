"""Open loads in whole scenarios: what is written down again, and the examples of the page."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator import workloads
from simulator.deployment import build
from simulator.documents import DocumentError, check
from tests.simulator.workloads.open_loads import GENERATED

PAGE = Path(__file__).parents[3] / "docs/workloads.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def document(**workload: Any) -> dict[str, Any]:
    """A scenario with that load."""
    base = {"model": "qwen3-8b", "hardware": "h200-sxm", "decode": {"policy": "ar"}}
    return base | {"workload": workload}


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A small file that is a trace and a table of lengths."""
    path = tmp_path / "requests.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n1,5,6\n3,50,60\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("kind", [*GENERATED, "trace"])
def test_a_scenario_is_written_and_read_again(kind: str, table: str) -> None:
    """What is written has no part that a file says, and gives the same deployment."""
    fields: dict[str, Any] = {"rate_per_s": 2.0, "requests": 5, "lengths": table}
    if kind == "trace":
        fields = {"file": table}
    if kind == "gamma":
        fields["cv"] = 2.0
    deployment = build(document(kind=kind, **fields), "test")

    written = json.loads(json.dumps(deployment.scenario.document(), allow_nan=False))

    assert "survey" not in written["workload"]
    assert written["workload"]["kind"] == kind
    assert written["workload"].items() >= fields.items()
    assert build(written, "again").scenario == deployment.scenario
    assert deployment.scenario.workload.longest_tokens == 110


def test_a_wrong_file_is_told_with_other_mistakes(table: str) -> None:
    """A scenario's mistakes come all at once, those of its file among them."""
    Path(table).write_text("prompt_tokens,output_tokens\n5,x\n", encoding="utf-8")
    wrong = document(kind="poisson", rate_per_s=1.0, requests=1, lengths=table)

    with pytest.raises(DocumentError) as caught:
        build(wrong | {"hardware": "nothing"}, "test")

    places = [mistake.where for mistake in caught.value.mistakes]
    assert sorted(places) == ["hardware", "workload.lengths"]
    assert f"{table}, line 2, column output_tokens: must be a whole" in str(caught.value)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_page_are_right(example: str) -> None:
    """Every example of docs/workloads.md is a workload section as it stands."""
    section = yaml.safe_load(example)["workload"]

    _, mistakes = check(workloads.workload(section["kind"]).Parameters, section)
    assert not mistakes


@pytest.mark.parametrize("kind", workloads.names())
def test_the_page_tells_of_every_field(kind: str) -> None:
    """The page has every kind, and every field that a scenario may give."""
    page, schema = PAGE.read_text(encoding="utf-8"), workloads.workload(kind).Parameters

    assert f"`{kind}`" in page
    given = {field.name for field in dataclasses.fields(schema)} - set(getattr(schema, "FOUND", ()))
    assert {name for name in given if not re.search(rf"\b{name}\b", page)} == set()
