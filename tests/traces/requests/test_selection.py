"""What is taken of a file: windows, numbers, rates and clips, each counted."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.requests.small_files import rows
from traces.requests.request_block import RequestBlock, joined
from traces.requests.selection import Selection, Taken, taken
from traces.requests.survey import survey

Row = tuple[float, int, int]


def blocks_of(requests: list[Row], block_rows: int = 3) -> Iterator[RequestBlock]:
    """The rows in blocks."""
    for start in range(0, len(requests), block_rows):
        part = np.array(requests[start : start + block_rows], dtype=float)
        yield RequestBlock(part[:, 0], *part[:, 1:].T.astype(np.int64))


def select(requests: list[Row], **changes: float) -> list[Taken]:
    """What is taken of the rows."""
    return list(taken(blocks_of(requests), Selection(**changes)))  # type: ignore[arg-type]


EVERY_SECOND = [(float(second), 10 + second, 1 + second) for second in range(10)]


def test_a_window_starts_at_zero() -> None:
    """Rows from *from_s* to before *until_s* are taken; the first second of the window is 0."""
    parts = select(EVERY_SECOND, from_s=4.0, until_s=7.0)

    assert rows(joined([part.block for part in parts])) == [(0, 14, 5), (1, 15, 6), (2, 16, 7)]
    assert sum(part.early_rows for part in parts) == 4


def test_what_is_behind_the_end_is_not_read() -> None:
    """A window, and a number of requests, end the reading."""
    read = list[int]()

    def noted() -> Iterator[RequestBlock]:
        for number, block in enumerate(blocks_of(EVERY_SECOND)):
            read.append(number)
            yield block

    assert len(list(taken(noted(), Selection(until_s=4.0)))) == 2
    assert len(list(taken(noted(), Selection(most_requests=3)))) == 1
    assert read == [0, 1, 0]


def test_a_rate_scales_gaps_alone() -> None:
    """Twice the rate halves every arrival; lengths stay."""
    fast, slow = (select(EVERY_SECOND, rate_scale=rate) for rate in (2.0, 0.5))

    assert rows(fast[1].block) == [(1.5, 13, 4), (2.0, 14, 5), (2.5, 15, 6)]
    assert fast[-1].block.arrival_s[-1] * 4 == slow[-1].block.arrival_s[-1]


def test_clips_are_counted() -> None:
    """Longer lengths become the longest allowed ones, and are counted apart."""
    parts = select(EVERY_SECOND, most_prompt_tokens=17, most_output_tokens=4)

    found = survey(parts, format_name="plain")
    assert (found.clipped_prompts, found.clipped_outputs) == (2, 6)
    assert found.longest_tokens == 21
    assert found.prompt_tokens == sum(range(10, 18)) + 2 * 17


def test_blocks_beyond_a_clipped_prompt_are_none_of_it() -> None:
    """A prompt of 100 tokens touches two blocks of 64; the third is of what was cut."""
    block = RequestBlock(np.zeros(1), np.array([150]), np.array([1]), [(7, 8, 9)])

    parts = taken(iter([block]), Selection(most_prompt_tokens=100, prefix_block_tokens=64))

    assert next(parts).block.prefixes == [(7, 8)]


@given(
    requests=st.lists(
        st.tuples(st.floats(0, 100), st.integers(1, 50), st.integers(1, 50)),
        min_size=1,
        max_size=20,
    ),
    from_s=st.floats(0, 60),
    span_s=st.floats(0.1, 60) | st.just(math.inf),
    most=st.none() | st.integers(1, 8),
    rate=st.floats(0.1, 10),
    clip=st.integers(1, 60),
)
def test_it_is_what_one_would_do_by_hand(
    requests: list[Row], from_s: float, span_s: float, most: int | None, rate: float, clip: int
) -> None:
    """Whatever the blocks, it equals filtering, cutting and scaling a list."""
    requests.sort()
    until_s = from_s + span_s
    parts = list(
        taken(
            blocks_of(requests),
            Selection(
                from_s=from_s,
                until_s=until_s,
                most_requests=most,
                rate_scale=rate,
                most_prompt_tokens=clip,
            ),
        )
    )

    inside = [row for row in requests if from_s <= row[0] < until_s][:most]
    expected = [((at - from_s) / rate, min(clip, prompt), out) for at, prompt, out in inside]
    found = survey(parts, format_name="plain")
    assert [row for part in parts for row in rows(part.block)] == expected
    assert found.n_requests == len(expected)
    assert found.clipped_prompts == sum(prompt > clip for _, prompt, _ in inside)
    assert found.longest_tokens == max((prompt + out for _, prompt, out in expected), default=0)
    if expected:
        assert found.span_s == pytest.approx(expected[-1][0] - expected[0][0])
        mean = sum(prompt for _, prompt, _ in expected) / len(expected)
        assert found.mean_lengths[0] == pytest.approx(mean, abs=0.5)
