"""Public request traces, where they are at hand: counts, means and what they have in common."""

import csv
import os
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from simulator.load.request_source import RequestSource
from traces.requests.request_block import RequestBlock, joined
from traces.requests.request_file import RequestFile, open_requests
from traces.requests.selection import Selection

FOLDER = Path(os.environ.get("BLOCKCAST_SHARED", "../shared")) / "workloads"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the public traces are not here")


def whole(name: str, *, needs_arrivals: bool = True) -> RequestBlock:
    """Every request of a file."""
    source = RequestFile(path=FOLDER / name, needs_arrivals=needs_arrivals)
    return joined(list(open_requests(source).blocks()))


@pytest.mark.parametrize(
    ("name", "n_requests", "prompt_tokens", "output_tokens"),
    [
        ("mooncake_conversation.jsonl", 12_031, 12_035, 343),
        ("mooncake_synthetic.jsonl", 3_993, 15_325, 149),
    ],
)
def test_mooncake_has_its_published_means(
    name: str, n_requests: int, prompt_tokens: int, output_tokens: int
) -> None:
    """Requests and mean lengths are those of Qin et al., Mooncake, FAST 2025, table 2."""
    block = whole(name)

    assert block.n_requests == n_requests
    assert block.prompt_tokens.mean() == pytest.approx(prompt_tokens, abs=0.5)
    assert block.output_tokens.mean() == pytest.approx(output_tokens, abs=0.5)


@pytest.mark.parametrize(
    ("name", "n_requests", "prompt_tokens", "output_tokens"),
    [("azure_llm_2023_conv.csv", 19_366, 1020, 129), ("azure_llm_2023_code.csv", 8_819, 1500, 13)],
)
def test_azure_has_its_published_medians(
    name: str, n_requests: int, prompt_tokens: int, output_tokens: int
) -> None:
    """Median lengths are those of Patel et al., Splitwise, ISCA 2024, section III, within 3 %."""
    block = whole(name)

    assert block.n_requests == n_requests
    assert np.median(block.prompt_tokens) == pytest.approx(prompt_tokens, rel=0.03)
    assert np.median(block.output_tokens) == pytest.approx(output_tokens, rel=0.03)


@pytest.mark.parametrize("name", ["azure_llm_2023_conv.csv", "azure_llm_2023_code.csv"])
def test_azure_is_read_as_the_standard_library_does(name: str) -> None:
    """Every row is what the csv and datetime modules make of it."""
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    moments = [datetime.fromisoformat(row["TIMESTAMP"][:26]) for row in rows]
    block = whole(name)

    assert block.prompt_tokens.tolist() == [int(row["ContextTokens"]) for row in rows]
    assert block.output_tokens.tolist() == [int(row["GeneratedTokens"]) for row in rows]
    # A datetime has microseconds, the file ten times as fine.
    seconds = [(moment - moments[0]).total_seconds() for moment in moments]
    assert np.abs(block.arrival_s - seconds).max() <= 1e-6


def test_azure_and_its_rebased_copy_are_one() -> None:
    """The file that Vidur re-based from Azure's date-times reads the same, arrivals and all."""
    azure, rebased = whole("azure_llm_2023_conv.csv"), whole("vidur_splitwise_conv.csv")

    assert np.array_equal(azure.prompt_tokens, rebased.prompt_tokens)
    assert np.array_equal(azure.output_tokens, rebased.output_tokens)
    # The copy has six decimals or seven of them.
    assert np.abs(azure.arrival_s - rebased.arrival_s).max() <= 1e-6


@pytest.mark.parametrize("name", ["mooncake_conversation.jsonl", "mooncake_synthetic.jsonl"])
def test_mooncake_blocks_cover_prompts(name: str) -> None:
    """Each prompt has an identity for each 512 tokens of it, the last ones with fewer."""
    block = whole(name)

    blocks = np.array([len(prefix) for prefix in block.prefixes or []])
    assert np.array_equal(blocks, -(-block.prompt_tokens // 512))


def test_mooncake_conversations_come_in_ticks() -> None:
    """At rate_scale 2 the bursts come twice as often and are as large; others have none."""
    name = "mooncake_conversation.jsonl"
    source = RequestSource(RequestFile(path=FOLDER / name), Selection(rate_scale=2.0), "file")
    arrivals_s = np.concatenate([block.arrival_s for block, _ in source.blocks()])

    for found_s, tick_s in ((whole(name).arrival_s, 3.0), (arrivals_s, 1.5)):
        ticks = np.rint(found_s / tick_s)
        assert np.abs(found_s / tick_s - ticks).max() <= 0.005 / 3
        _, sizes = np.unique(ticks, return_counts=True)
        assert sizes.mean() == pytest.approx(10.2, abs=0.1)
        assert sizes.max() == 28
    synthetic_s = whole("mooncake_synthetic.jsonl").arrival_s
    assert len(np.unique(synthetic_s)) > 0.99 * len(synthetic_s)


def test_tables_of_lengths_are_read() -> None:
    """The summarisation table that Vidur made, none longer than 4,096 tokens together."""
    block = whole("lengths_arxiv_summarization.csv", needs_arrivals=False)

    assert block.n_requests == 28_257
    assert (block.prompt_tokens + block.output_tokens).max() <= 4096
