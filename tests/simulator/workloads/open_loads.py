"""Open loads as scenarios write them, and the requests they come to."""

from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from simulator import workloads
from simulator.request import Request

GENERATED = ("constant", "gamma", "poisson")
LENGTHS = {"prompt_tokens": 100, "output_tokens": 10}


def load(kind: str, **fields: Any) -> Any:
    """The checked and prepared parameters."""
    schema = workloads.workload(kind).Parameters
    cv = {"cv": 2.0} if kind == "gamma" and "cv" not in fields else {}
    parameters = TypeAdapter(schema).validate_python({"kind": kind, **cv, **fields})
    module: Any = workloads.workload(kind)
    return module.prepared(parameters)


def requests(parameters: Any, seed: int = 0, most: int | None = None) -> list[Request]:
    """The requests of *parameters*, or the first so many."""
    module: Any = workloads.workload(parameters.kind)
    return list(islice(module.requests(parameters, seed), most))


def gaps_s(kind: str, n_requests: int, seed: int = 0, **fields: Any) -> npt.NDArray[np.float64]:
    """Gaps between the arrivals of a generated load, the first one from 0."""
    made = requests(load(kind, requests=n_requests, **LENGTHS, **fields), seed)
    return np.diff([request.arrival_s for request in made], prepend=0.0)
