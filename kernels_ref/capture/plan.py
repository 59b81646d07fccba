"""Plan: everything that decides what a capture gives, resolved and checked before it begins."""

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, cast

import numpy as np
import torch

from kernels_ref.capture.prompts import Prompt
from kernels_ref.capture.records import TableRows, module_of
from kernels_ref.capture.source import Source, shipped_with
from kernels_ref.decoders import Policy
from kernels_ref.decoding.batch import Row


class Recording(Protocol):
    """A module of `kernels_ref.capture.records`."""

    def check(self, plan: "Plan") -> None:
        """Raise ValueError for what the model of *plan* rules out."""

    def request(self, plan: "Plan", problem: int) -> Row:
        """Nothing decoded of a prompt; raises ValueError for one that cannot be."""

    def rows_of(self, request: Any, prompt: Prompt, batch: int, row: int) -> TableRows:  # noqa: ANN401 (each kind has its own)
        """What the tables say of a *request*, the *row* of its *batch*."""

    def described(self, plan: "Plan") -> dict[str, Any]:
        """Fields of the manifest that other kinds do not have."""

    def warnings(self, plan: "Plan") -> list[str]:
        """In what the decoder asks of the checkpoint what it was not trained for."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A decoder, a model to run on, prompts in batches of *batch* rows."""

    name: str
    policy: Policy
    parameters: Any
    """The policy's own `Parameters`."""
    source: Source
    prompts: Sequence[Prompt]
    task: str
    batch: int
    seed: int
    output_tokens: int
    dtype: str

    @property
    def block_tokens(self) -> int:
        """The block that is decoded by."""
        chosen: int | None = self.parameters.block
        return self.source.model.facts.block_tokens if chosen is None else chosen

    @property
    def recording(self) -> Recording:
        """How what it decodes is recorded."""
        return cast("Recording", module_of(self.policy.RECORDS))

    def request(self, problem: int) -> Row:
        """Nothing decoded of a prompt; raises ValueError for one that cannot be."""
        return self.recording.request(self, problem)

    def check(self) -> None:
        """Raise ValueError for the first prompt that cannot be decoded, before any is."""
        if self.batch < 1:
            rule = f"a batch has at least 1 row, got {self.batch}"
            raise ValueError(rule)
        if not self.prompts:
            rule = "a trace has at least 1 problem, got none"
            raise ValueError(rule)
        self._check_drafter()
        self.recording.check(self)
        for problem in range(len(self.prompts)):
            try:
                self.request(problem)
            except ValueError as error:
                rule = f"prompt {problem}: {error}"
                raise ValueError(rule) from error

    def _check_drafter(self) -> None:
        asked, found = self.policy.DRAFTER, self.source.drafter
        if found != asked:
            shipped = ", ".join(shipped_with(asked))
            rule = (
                f"{self.parameters.policy} drafts with {asked or 'nothing'}, and "
                f"{self.source.name} has {found or 'nothing'}; right would be {shipped}"
            )
            raise ValueError(rule)

    @property
    def warnings(self) -> list[str]:
        """In what the decoder asks of the checkpoint what it was not trained for."""
        return self.recording.warnings(self)

    def described(self) -> dict[str, Any]:
        """The fields of the trace's manifest that are known before anything is decoded."""
        parameters = asdict(self.parameters)
        del parameters["policy"], parameters["block"]
        return {
            "format_version": 1,
            "name": self.name,
            "description": f"{self.parameters.policy} on {self.source.name}, {self.task}",
            "kind": "captured",
            "records": self.policy.RECORDS,
            "policy": self.parameters.policy,
            "parameters": parameters,
            "block_tokens": self.block_tokens,
            "checkpoint": {
                "name": self.source.name,
                "sha256": self.source.sha256,
                "trained_block_tokens": self.source.model.facts.block_tokens,
            },
            "task": self.task,
            "seed": self.seed,
            "batch": self.batch,
            "dtype": self.dtype,
            "output_limit_tokens": self.output_tokens,
            "requests_asked": len(self.prompts),
            "warnings": self.warnings,
            "software": {
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
            **self.recording.described(self),
        }
