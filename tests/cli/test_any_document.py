"""Whatever a scenario document holds, building it succeeds or says what is wrong."""

import copy
import datetime
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.deployment import build
from simulator.documents import DocumentError, as_mapping, parse
from simulator.scenario import settings_of
from tests.strategies import POLICIES, document, files_read_once

TRACED = {"policy": "uno-tree", "trace": "uno-qwen3-8b-t1", "block": 8, "tree_size": 16}
DOCUMENTS = [document(policy) for policy in POLICIES]
DOCUMENTS.append(document("uno-tree", TRACED) | {"seed": 3, "parallel": {"tp": 2, "dp": 1}})
DOCUMENTS.append(
    document("ar")
    | {
        "batching": {"mode": "static", "max_batch": 4},
        "precision": {"weights": "bf16", "kv": "fp8"},
        "routing": {"kind": "zipf", "exponent": 1.0, "active_experts": 9.5},
    }
)

WORDS = ["", "ar", "qwen3-8b", "h100-sxm", "fp8", "4.8e12", "./x.yaml", "/dev/null", "a\0/b", "."]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 5000)
    | st.integers()
    | st.sampled_from([2**63, 2**64, 10**400, -(10**30)])
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=6)
    | st.binary(max_size=4)
    | st.just(datetime.date(2020, 1, 31))
    | st.just(datetime.datetime(2020, 1, 31, tzinfo=datetime.UTC))
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=6) | st.integers() | st.none(), inner, max_size=3)
        | st.sets(st.text(max_size=3), max_size=2)
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module", autouse=True)
def _files_are_read_once() -> Iterator[None]:
    with files_read_once():
        yield


def sections(value: dict[str, Any]) -> list[dict[Any, Any]]:
    """The document and every mapping directly in it."""
    return [value, *(inner for inner in value.values() if isinstance(inner, dict))]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A valid document with one to three fields taken out, replaced or added."""
    changed: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 3))):
        section = draw(st.sampled_from(sections(changed)))
        change = draw(st.sampled_from(["delete", "replace", "replace", "add"]))
        if change == "add" or not section:
            section[draw(st.text(max_size=8))] = draw(JUNK)
            continue
        name = draw(st.sampled_from(sorted(section, key=repr)))
        if change == "delete":
            del section[name]
        else:
            section[name] = draw(JUNK)
    return changed


@given(changed=mutated())
@settings(max_examples=200, deadline=None)
def test_a_changed_document_builds_or_says_why(changed: dict[str, Any]) -> None:
    """No mixture of missing, strange and added fields gets past the checks as a crash."""
    try:
        deployment = build(changed, "fuzz.yaml")
    except DocumentError as error:
        assert error.mistakes
        assert str(error).startswith("fuzz.yaml:\n  ")
        assert all(str(mistake).strip(": ") for mistake in error.mistakes)
    else:
        assert deployment.most_together >= 1


@given(text=st.text(max_size=40) | st.text("[]{}&*!:-,'\"|>%@#?~ \n0e.a<=", max_size=30))
@settings(max_examples=100, deadline=None)
def test_any_text_parses_to_a_mapping_or_says_why(text: str) -> None:
    """No text makes the reader of documents crash."""
    try:
        assert isinstance(as_mapping(parse(text, "fuzz.yaml"), "fuzz.yaml"), dict)
    except DocumentError as error:
        assert error.origin == "fuzz.yaml"


@given(value=st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=4))
@settings(max_examples=60, deadline=None)
def test_settings_are_read_as_yaml(value: Any) -> None:
    """What YAML writes, a setting on the command line reads, or it says why not."""
    text = yaml.safe_dump(value, default_flow_style=True)
    try:
        (key,) = settings_of((f"decode.block={text}",))
        assert key == "decode.block"
    except DocumentError as error:
        assert error.mistakes
