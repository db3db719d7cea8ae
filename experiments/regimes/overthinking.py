"""Makes the model of `overthinking.yaml`, which checks its last step again and again.

    python experiments/regimes/overthinking.py

Another processor makes other weights: make it again only when the recipe changes.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from gfcr.tasks.demos.base import Recipe
from gfcr.tasks.demos.training import train

sys.path.insert(0, str(Path(__file__).parents[2]))  # where `benchmarks` is

from benchmarks.claims.overthinking import OverthinkingChainSums

FOLDER = Path(__file__).with_name("overthinking-model")
RECIPE = Recipe(
    name="overthinking",
    about="1.05M parameters, chain sums whose last step is checked again and again",
    demonstrations=OverthinkingChainSums(),
    steps=640,
    seconds=55,
)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        train(RECIPE, folder=Path(scratch))
        shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.copytree(scratch, FOLDER, copy_function=shutil.copyfile)
