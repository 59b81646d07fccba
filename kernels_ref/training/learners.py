"""The learner of each recipe, by its objective."""

from pathlib import Path

from kernels_ref.pass_shape import PassShape
from kernels_ref.training.adapters import AdapterLearner
from kernels_ref.training.dflash import DFlashLearner
from kernels_ref.training.eagle3 import Eagle3Learner
from kernels_ref.training.language import LanguageLearner
from kernels_ref.training.learner import Learner
from kernels_ref.training.reading import AnyRecipe
from kernels_ref.training.recipe import Recipe


def learner_of(recipe: AnyRecipe, start: Path | None, shape: PassShape | None = None) -> Learner:
    """What *recipe* trains, from the manifest *start*; raises CheckpointError for a bad one.

    *shape* is of a model that begins with random weights; the reference architecture when absent.
    """
    if isinstance(recipe, Recipe):
        return LanguageLearner(recipe, start, shape)
    if recipe.objective == "eagle3":
        return Eagle3Learner(recipe, start)
    if recipe.objective == "dflash":
        return DFlashLearner(recipe, start)
    return AdapterLearner(recipe, start)
