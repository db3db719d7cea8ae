"""Makes the model of `overthinking.yaml`, which checks its last step again and again.

    python experiments/regimes/overthinking.py

Another processor makes other weights: make it again only when the recipe changes.
"""

import shutil
import tempfile
from pathlib import Path

from gfcr.tasks.demos.base import Recipe
from gfcr.tasks.demos.chain_sum import ChainSumDemonstrations, Styles
from gfcr.tasks.demos.training import train

FOLDER = Path(__file__).with_name("overthinking-model")
STYLES = Styles(direct=0.0, merge=0.05, slip=0.10, notice=0.0, recheck=0.0, linger=0.70)
RECIPE = Recipe(
    name="overthinking",
    about="1.05M parameters, chain sums whose last step is checked again and again",
    demonstrations=ChainSumDemonstrations(styles=STYLES),
    steps=640,
    seconds=55,
)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        train(RECIPE, folder=Path(scratch))
        shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.copytree(scratch, FOLDER, copy_function=shutil.copyfile)
