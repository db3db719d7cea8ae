"""What limits the comparisons of a study that has ended."""

from collections.abc import Sequence

from gfcr.sweep.study import Study, TrialEnd


def problems(ends: Sequence[TrialEnd]) -> list[TrialEnd]:
    """Returns the trials that cannot be compared although they should have finished."""
    return [e for e in ends if e.problem is not None and e.status != "stopped"]


def edited(ends: Sequence[TrialEnd]) -> list[str]:
    """Returns which code has changed since trials finished, a line each."""
    names = sorted({name for e in ends for name in e.result.get("edited", ())})
    return [f"{n} was edited since finished trials ran: --fresh runs them again." for n in names]


def notes(study: Study, *, ends: Sequence[TrialEnd]) -> list[str]:
    """Returns what limits the study's comparisons, a line each."""
    lines: list[str] = []
    if len(study.seeds) == 1:
        lines.append("One seed: no interval, and no verdict but `inconclusive`.")
    broken = {e.trial.config.name for e in problems(ends)}
    # A search's study has its baseline alone, and its ends have the candidates too.
    arms = list(dict.fromkeys(e.trial.config.name for e in ends))
    for arm in arms:
        bad = [e for e in problems(ends) if e.trial.config.name == arm]
        if len(bad) == len(study.seeds):
            lines.append(f"{arm} has no run that can be compared: it is in no table.")
    if study.baseline in broken:
        lines.append(
            f"The baseline {study.baseline} lacks seeds: no arm has a rank or a verdict before "
            "they are run."
        )
    if study.search is not None:
        lines.append(
            "Candidates were chosen by these very scores: run the best again, with other seeds, "
            "before they are called better."
        )
    lines += edited(ends)
    stopped = list(dict.fromkeys(e.trial.config.name for e in ends if e.status == "stopped"))
    if stopped:
        lines.append(
            f"Stopped early and compared with nothing: {', '.join(stopped)}. Each counts among the "
            f"{len(arms) - 1} comparisons that p-values are corrected for, as p = 1."
        )
    return lines
