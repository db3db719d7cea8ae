"""Makes the demo models whose weights come with gfcr, and leaves them in the package.

    python scripts/demo_weights.py [NAME...]

Another processor makes other weights, and every figure measured with them changes a little: make
them again only when their recipe changes.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from gfcr import models
from gfcr.tasks.demos.training import train

NAMES = ("demo", "demo-draft", "demo-draft-generic")


def main() -> None:
    for name in sys.argv[1:] or NAMES:
        with tempfile.TemporaryDirectory() as scratch:
            train(models.recipe(name), folder=Path(scratch))
            shutil.rmtree(models.SHIPPED / name, ignore_errors=True)
            shutil.copytree(scratch, models.SHIPPED / name, copy_function=shutil.copyfile)


if __name__ == "__main__":
    main()
