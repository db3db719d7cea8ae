"""`python -m benchmarks.stock_trl SPEC.json`: one run of stock TRL, in a process of its own.

SPEC holds an experiment (as its YAML would), a `folder`, a `group_size` and a `target`. The answer
is one line of JSON on stdout; what went on goes to stderr.
"""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gfcr import config as configs
from gfcr import experiment, models
from gfcr.config import Experiment
from gfcr.errors import ConfigError, GfcrError, shown
from gfcr.experiment.heldout import question
from gfcr.experiment.resolved import Resolved
from gfcr.tasks.codec import HfCodec

if TYPE_CHECKING:
    from gfcr.engine.vllm import Vllm
    from gfcr.train.trl import Trl


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


def check(resolved: Resolved) -> "tuple[Vllm, Trl]":
    """Returns engine and trainer of an experiment that stock TRL can be compared on.

    Raises:
        ConfigError: there is none, or held-out prompts are asked otherwise than stock TRL asks.
    """
    from gfcr.engine.vllm import Vllm
    from gfcr.train.trl import Trl

    config, engine, trainer = resolved.config, resolved.engine, resolved.trainer
    if not isinstance(engine, Vllm) or not isinstance(trainer, Trl):
        raise ConfigError(
            "stock TRL is compared on engine.name=vllm and trainer.name=trl: they are not those of "
            f"arm {config.name}. Give them to the study, and other engines to arms after the first."
        )
    if (config.evaluation.sampling, config.evaluation.samples) != (config.sampling, 1):
        raise ConfigError(
            "stock TRL evaluates once a prompt with the sampling it trains with: give "
            "evaluation.samples=1 and evaluation.sampling the values of sampling, or their scores "
            "are of two questions."
        )
    stops = config.sampling.stop or config.sampling.stop_token_ids
    if stops or resolved.spec["evaluation"]["generate"]["name"] != "sample":
        raise ConfigError(
            "stock TRL has no stops here, and answers in one go: give no sampling.stop and no "
            "sampling.stop_token_ids, and evaluation.generate=sample."
        )
    for name in ("system", "chat_template", "chat_template_kwargs", "raw_text"):
        if given := getattr(resolved.task, name):
            raise ConfigError(
                f"task.{name}={shown(given)}: stock TRL is asked by the model's own chat template "
                "here, and scored without special tokens. Leave it out."
            )
    return engine, trainer


def run(config: Experiment, *, folder: Path, group_size: int, target: float) -> dict[str, Any]:
    """Trains stock TRL on the experiment's task, model and settings until the target or its end.

    Raises:
        ConfigError: see `check`; or batches do not come out even.
    """
    from gfcr.engine.vllm import repair

    resolved = experiment.resolve(config)
    engine, trainer = check(resolved)
    began = time.perf_counter()
    repairs = repair(engine)
    from benchmarks.stock_trainer import StockJob, train

    model = str(models.resolve(config.model))
    codec = HfCodec(model)
    problems = resolved.task.problems(codec)
    job = StockJob(
        config=config,
        task=resolved.task,
        trainer=trainer,
        model=model,
        codec=codec,
        train=problems.train,
        heldout=question(problems, evaluation=config.evaluation).prompts,
        group_size=group_size,
        folder=folder,
        engine=engine.machine(),
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
