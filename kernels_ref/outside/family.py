"""Family: what the checkpoints of one architecture have in common, as a data file says it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import yaml
from pydantic import ConfigDict, TypeAdapter

from kernels_ref.outside.error import OutsideError
from kernels_ref.outside.folder import CONFIG_FILE, read_config

FAMILIES: Final = Path(__file__).parent / "families"
"""The data files: NAME.yaml is the family called NAME."""
STRICT: Final[ConfigDict] = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Setting:
    """A value: the first of *keys* that config.json has a value for, else *otherwise*.

    Keys within keys are joined by dots; null counts as no value.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    keys: tuple[str, ...] = ()
    otherwise: Any = None

    def value(self, config: Mapping[str, Any]) -> Any:  # noqa: ANN401 (any JSON value)
        """The value in *config*; None where there is none."""
        found = [value for key in self.keys if (value := look_up(config, key)) is not None]
        return found[0] if found else self.otherwise


@dataclass(frozen=True, kw_only=True)
class Family:
    """How to read a checkpoint of this family, and what decoders must know of it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    name: str
    description: str
    source: str
    """Where the facts of this file come from."""
    architectures: tuple[str, ...]
    """What `architectures` in config.json says, one of these."""
    model_types: tuple[str, ...]
    """What `model_type` says, one of these, where the architecture is not known."""
    block_tokens: Setting
    prompt: Literal["block-causal", "prefix-full", "causal"]
    """How clean tokens see one another."""
    mask_token: Setting
    end_tokens: tuple[int, ...]
    """Besides those that config.json names as eos_token_id."""
    context_tokens: Setting
    logit_shift: bool
    """The output at place i-1 predicts the token at place i, and not the output at i."""
    config: Mapping[str, Setting]
    """The fields of `Sizes`."""
    experts: Mapping[str, Setting] | None = None
    """The fields of `ExpertSizes`; None where all layers are dense."""
    requires: Mapping[str, tuple[Any, ...]]
    """What config.json may say under a key, where it says anything: all else is refused."""
    layer_prefix: str
    """Before the names of layer {layer}'s tensors."""
    tensors: Mapping[str, tuple[str, ...]]
    """Our name of a tensor to theirs: several are put below one another."""
    layer_tensors: Mapping[str, tuple[str, ...]]
    """The same within a layer; names with {expert} stand for one tensor of each expert."""
    ignored_tensors: tuple[str, ...] = ()
    """Ends of names of tensors that follow from config.json."""
    thresholds: Mapping[str, Mapping[str, int | float]]
    """Default parameters of decoding policies, by the policy's name."""


def look_up(config: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401 (any JSON value)
    """What *config* has under the dotted *key*; None where it has nothing."""
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def family_names() -> list[str]:
    """Names of all families."""
    return sorted(path.stem for path in FAMILIES.glob("*.yaml"))


def read_family(name: str) -> Family:
    """The family called *name*, one of `family_names`."""
    text = (FAMILIES / f"{name}.yaml").read_text(encoding="utf-8")
    return TypeAdapter(Family).validate_python(yaml.safe_load(text))


def family_of(folder: Path, name: str | None = None) -> Family:
    """The family called *name*, or the one whose architecture config.json in *folder* names.

    Raises OutsideError where there is no such family, and as `read_config`.
    """
    known = family_names()
    if name is not None:
        if name not in known:
            raise OutsideError(folder, f"a family is one of {', '.join(known)}; got {name}")
        return read_family(name)
    config = read_config(folder)
    families = [read_family(each) for each in known]
    for family in families:
        if _says(config.get("architectures"), family.architectures):
            return family
    for family in families:
        if _says(config.get("model_type"), family.model_types):
            return family
    architectures = [each for family in families for each in family.architectures]
    said = f"{config.get('architectures')}, model_type {config.get('model_type')}"
    rule = f"the architecture is one of {', '.join(architectures)}; got {said}"
    raise OutsideError(folder / CONFIG_FILE, rule)


def _says(value: object, names: tuple[str, ...]) -> bool:
    """Whether a string, or one in a list of strings, is among *names*."""
    values = value if isinstance(value, list) else [value]
    return any(each in names for each in values)
