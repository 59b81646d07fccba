"""Models on another device, and how long things take there."""

import time
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch

from kernels_ref.capture.source import Source
from kernels_ref.decoding.reference import ReferenceModel
from kernels_ref.passes import Decoder


def own_s() -> float:
    """Seconds of this thread, without those that the system gave to others meanwhile."""
    return time.thread_time()


def now_s(device: torch.device) -> float:
    """Seconds by the clock of what computes: the thread itself on a CPU, the wall beside a GPU."""
    return time.perf_counter() if device.type == "cuda" else own_s()


def wait(device: torch.device) -> None:
    """Until *device* has done all that it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def moved(source: Source, device: torch.device) -> Source:
    """*source* with its model on *device*; TypeError for one that more than one stack makes up."""
    model = source.model
    if not isinstance(model, ReferenceModel):
        rule = f"{source.name} drafts with layers of its own, which stay on the CPU"
        raise TypeError(rule)
    weights = _moved(model.decoder.weights, device)
    there = ReferenceModel(Decoder(model.decoder.shape, weights), model.facts)
    return replace(source, model=there)


def _moved(value: Any, device: torch.device) -> Any:  # noqa: ANN401 (weights of any kind)
    """*value* with every tensor in it on *device*."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, tuple):
        return tuple(_moved(each, device) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: _moved(getattr(value, field.name), device) for field in fields(value)}
        return replace(value, **parts)
    return value
