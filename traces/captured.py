"""CapturedManifest: what every captured trace says about itself, checked when it is made or read.

A kind of records has a manifest of its own, which narrows `records` and `counts`.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, PlainValidator, Strict

from traces.manifest import STRICT, Count, Text

Whole = Annotated[int, Strict(), Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
BlockTokens = Annotated[int, Strict(), Field(ge=1, le=4096)]
Rows = Annotated[int, Strict(), Field(ge=1, le=1_000_000)]
Tokens = Annotated[int, Strict(), Field(ge=1, lt=2**31)]
Sha256 = Annotated[str, Strict(), Field(pattern="^[0-9a-f]{64}$")]


def _one_value(value: object) -> object:
    if isinstance(value, bool | int | str | None) or (
        isinstance(value, float) and math.isfinite(value)
    ):
        return value
    rule = f"a parameter is a finite number, a text, true, false or null, got {value!r:.60}"
    raise ValueError(rule)


Parameter = Annotated[bool | int | float | str | None, PlainValidator(_one_value)]

TABLE_FILE: Final = re.compile(r"(?P<table>[a-z]+)(\.[1-9][0-9]*)?\.parquet")
"""A table's file: its name alone, or with the number of the snapshot that wrote it."""


@dataclass(frozen=True)
class TracedCheckpoint:
    """The weights that decoded; of a speculative decoder, those that drafted."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    name: Text
    sha256: Sha256
    trained_block_tokens: Count
    """Block that it was trained for."""


@dataclass(frozen=True)
class RequestCounts:
    """Totals over the requests; those that a kind adds follow them in the file."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    requests: Count
    output_tokens: Whole
    prefill_forwards: Whole


@dataclass(frozen=True)
class BatchCounts:
    """Totals over whole batches; they come last in the file."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    batch_forwards: Whole
    """Forwards over a batch, in which each row has a forward of its own at most; prefill
    included."""
    batch_prefill_forwards: Whole
    """Of them, those that prefilled."""

    def __post_init__(self) -> None:
        """Refuse more prefill than there are forwards."""
        if self.batch_prefill_forwards > self.batch_forwards:
            rule = (
                f"batch_prefill_forwards are part of batch_forwards, so at most "
                f"{self.batch_forwards}, got {self.batch_prefill_forwards}"
            )
            raise ValueError(rule)


@dataclass(frozen=True)
class Counts(BatchCounts, RequestCounts):
    """What every kind of trace counts.

    A dataclass has the fields of its last base first, which is the order they are written in.
    """


@dataclass(frozen=True)
class Accuracy:
    """Shares of the requests that could be checked; None where none could."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    correct: Share | None
    valid: Share | None
    """Those whose output has the form that the task asks for."""


@dataclass(frozen=True)
class TableFile:
    """One table: its file beside the manifest, its rows, and the hash of the file's bytes."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    file: Text
    rows: Whole
    sha256: Sha256


@dataclass(frozen=True)
class CapturedManifest:
    """What decoded what with which parameters, and the tables that it left."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    TABLES: ClassVar[tuple[str, ...]] = ()
    """Names of the tables that a trace of this kind has."""

    format_version: Literal[1]
    name: Text
    description: Text
    kind: Literal["captured"]
    records: str
    """What its tables hold."""
    policy: Text
    """The decoding policy."""
    parameters: dict[Text, Parameter]
    """Every hyperparameter of the policy."""
    block_tokens: BlockTokens
    """Block that it decoded with."""
    checkpoint: TracedCheckpoint
    task: Text
    seed: Whole
    batch: Rows
    """Rows of a full batch."""
    dtype: Text
    output_limit_tokens: Tokens
    software: dict[Text, Text]
    counts: Counts
    accuracy: Accuracy | None
    """None where no request could be checked."""
    warnings: tuple[Text, ...]
    partial: Annotated[bool, Strict()]
    """Whether it is a snapshot of a capture that had not come to its end."""
    requests_asked: Count
    tables: dict[Text, TableFile]

    def __post_init__(self) -> None:
        """Refuse files that are not the tables', and counts that cannot be."""
        if mistakes := list(_mistakes(self)):
            raise ValueError("; ".join(mistakes))

    @property
    def policies(self) -> tuple[str, ...]:
        """Decoding policies that the trace is of."""
        return (self.policy,)

    @property
    def caveats(self) -> Iterator[str]:
        """What a user of the trace should know, a sentence each."""
        if self.partial:
            captured, asked = self.counts.requests, self.requests_asked
            yield f"trace {self.name} is a snapshot of {captured} of {asked} requests"
        yield from (f"trace {self.name}: {warning}" for warning in self.warnings)


def _mistakes(manifest: CapturedManifest) -> Iterator[str]:
    if set(manifest.tables) != set(manifest.TABLES):
        given = ", ".join(manifest.tables) or "none"
        yield f"tables are {', '.join(manifest.TABLES)}, got {given}"
    for name, table in manifest.tables.items():
        form = TABLE_FILE.fullmatch(table.file)
        if form is None or form["table"] != name:
            rule = f"is {name}.parquet or {name}.NUMBER.parquet"
            yield f"tables.{name}.file {rule}, got {table.file!r}"
        elif name == "requests" and table.rows != manifest.counts.requests:
            rule = f"is counts.requests, {manifest.counts.requests}"
            yield f"tables.{name}.rows {rule}, got {table.rows}"
    captured, asked = manifest.counts.requests, manifest.requests_asked
    if captured > asked:
        yield f"counts.requests is at most requests_asked, {asked}, got {captured}"
    if captured < asked and not manifest.partial:
        yield f"a complete trace has all {asked} requests_asked, got {captured}"
