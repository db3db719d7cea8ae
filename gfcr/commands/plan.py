"""`gfcr plan`."""

import argparse

from rich.markup import escape

from gfcr import config, sweep
from gfcr.commands import Outcome, within
from gfcr.errors import ConfigError
from gfcr.shown.table import Column, Table
from gfcr.values.ranges import Fraction, Positive, Share


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", help="path of a study's YAML file; with --memory an experiment's")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for every arm")
    parser.add_argument("--effect", type=within(Positive), help="difference to count seeds for")
    parser.add_argument(
        "--calibrate", action="store_true", help="run two updates of each arm of unknown cost"
    )
    parser.add_argument(
        "--seed-sd", type=within(Share), help="assumed spread between runs of one arm (0.03)"
    )
    parser.add_argument(
        "--accuracy", type=within(Fraction), help="assumed held-out score (0.5, which varies most)"
    )
    parser.add_argument("--memory", action="store_true", help="say what of a run fits on a GPU")
    parser.add_argument(
        "--gpu", type=within(Positive), metavar="GIB", help="its memory; else of the one here"
    )


def run(options: argparse.Namespace) -> Outcome:
    from gfcr import planning
    from gfcr.experiment.size import size_here

    assumed = {k: v for k in ("seed_sd", "accuracy") if (v := vars(options)[k]) is not None}
    unheard = options.effect or options.calibrate or assumed if options.memory else options.gpu
    if unheard:
        raise ConfigError(
            "--memory and --gpu go together, without --effect, --calibrate, --seed-sd, --accuracy."
        )
    if options.memory:
        return _memory(options)
    study = sweep.load(options.study, overrides=options.overrides)
    made = planning.plan(
        study,
        effect=options.effect,
        calibrated=options.calibrate,
        assumed=planning.Assumed(**assumed),
    )
    sizes = {arm: size_here(trial.config) for arm, (trial, *_) in study.arms.items()}
    alike = {text: [arm for arm in sizes if sizes[arm] == text] for text in sizes.values() if text}
    told = [
        escape(f"Runs of {', '.join(arms) if len(alike) > 1 else 'every arm'}: {text}.")
        for text, arms in alike.items()
    ]
    return Outcome(data={**made.data(), "sizes": sizes}, text=[made, *told])


def _memory(options: argparse.Namespace) -> Outcome:
    from gfcr.experiment.size import GIB
    from gfcr.planning.memory import Fit, memory_of

    loaded = config.read_experiment(options.study, overrides=options.overrides)
    found = memory_of(loaded, gpu=int(options.gpu * GIB) if options.gpu else _gpu())

    def part(name: str) -> Column[Fit]:
        return Column(name, lambda fit: fit.bytes[name] / GIB, ".1f")

    def verdict(fit: Fit) -> str:
        if found.cached < found.longest:  # the engine refuses to start
            return "no cache"
        return "fits" if fit.most <= found.gpu else "too much"

    columns: list[Column[Fit]] = [
        Column("trainer", lambda fit: "LoRA" if fit.lora else "full", words=True),
        Column("engine", lambda fit: "sleeps" if fit.sleeps else "stays", words=True),
        *map(part, found.fits[0].bytes),
        Column(f"of {found.gpu / GIB:g}", verdict, words=True),
    ]
    title = f"{loaded.model}, {found.parameters / 1e6:,.0f} million parameters, GiB"
    told = (
        f"KV cache: {found.token / 2**10:.1f} KiB a token, {found.cached:,} tokens, "
        f"{found.cached // found.longest:,} sequences of {found.longest:,}. The largest pass has "
        f"{found.tokens:,} tokens. CUDA itself, and what vLLM's own passes take of its share, are "
        "not counted."
    )
    return Outcome(data=found, text=[Table(rows=found.fits, columns=columns, title=title), told])


def _gpu() -> int:
    import torch

    if not torch.cuda.is_available():
        raise ConfigError("--memory: there is no GPU here: give its memory in GiB, as in --gpu 80.")
    return torch.cuda.mem_get_info()[1]
