"""`python -m gfcr.bench.stock_trl SPEC.json`: one run of stock TRL, in a process of its own.

SPEC holds an experiment (as its YAML would), a `folder`, a `group_size` and a `target`. The answer
is one line of JSON on stdout; what went on goes to stderr.
"""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gfcr import config as configs
from gfcr import experiment, models
from gfcr.config import Experiment
from gfcr.errors import ConfigError, GfcrError
from gfcr.experiment.heldout import question
from gfcr.tasks.codec import HfCodec


def main() -> int:
    """Runs it."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    try:
        answer = run(
            configs.experiment(spec["experiment"], where=sys.argv[1]),
            folder=Path(spec["folder"]),
            group_size=spec["group_size"],
            target=spec["target"],
        )
    except GfcrError as error:
        answer = {"status": "failed", "error": str(error)}
    print(json.dumps(answer))
    return 0 if answer["status"] == "finished" else 1


def run(config: Experiment, *, folder: Path, group_size: int, target: float) -> dict[str, Any]:
    """Trains stock TRL on the experiment's task, model and settings until the target or its end.

    Raises:
        ConfigError: the engine or the trainer is another one, or batches do not come out even.
    """
    resolved = experiment.resolve(config)
    from gfcr.engine.vllm import Vllm, machine_settings, repair
    from gfcr.train.trl import Trl

    engine, trainer = resolved.engine, resolved.trainer
    if not isinstance(engine, Vllm) or not isinstance(trainer, Trl):
        raise ConfigError("stock TRL is compared on engine.name=vllm and trainer.name=trl.")
    evaluation = config.evaluation
    if (evaluation.sampling, evaluation.samples) != (config.sampling, 1):
        raise ConfigError(
            "stock TRL evaluates once a prompt with the sampling it trains with: give "
            "evaluation.samples=1 and evaluation.sampling the values of sampling, or their scores "
            "are of two questions."
        )
    began = time.perf_counter()
    repairs = repair(engine)
    from gfcr.train.trl_stock import StockJob, train

    model = str(models.resolve(config.model))
    codec = HfCodec(model)
    problems = resolved.task.problems(codec)
    job = StockJob(
        model=model,
        task=resolved.task,
        codec=codec,
        train=problems.train,
        heldout=question(problems, evaluation=evaluation).prompts,
        prompts=config.prompts,
        group_size=group_size,
        sampling=config.sampling,
        trainer=trainer,
        every=evaluation.every or trainer.max_steps,
        tokens=config.budget.generated_tokens,
        seed=config.seed,
        folder=folder,
        engine=machine_settings(engine),
        target=target,
    )
    course = train(job, watch=lambda line: print(line, file=sys.stderr, flush=True))
    return {
        "status": "finished",
        **asdict(course),
        "wall_s": time.perf_counter() - began,
        "repairs": list(repairs),
    }


if __name__ == "__main__":
    sys.exit(main())
