"""What filters share that read the scores of an Evaluator."""

from gfcr.part import Recipe
from gfcr.stages import Evaluator, Recaller


def unscored(strategy: Recipe, *names: str, by: str) -> str | None:
    """Returns why rollouts would lack these scores, which the control `by` gives: `Part.clash`."""
    given = {name for e in strategy.hooks(Evaluator).values() for name in e.gives_scores}
    if not {*names} <= given:
        told = ", ".join(f"`{name}`" for name in names)
        return f"no part gives the scores that it reads ({told}): add the control `{by}`."
    if recallers := strategy.hooks(Recaller):
        return (
            f"what {', '.join(recallers)} recalls joins a group that was scored already, and has "
            "none of the scores that it reads. Replay whole groups, by `group_replay`: those are "
            "scored like fresh ones."
        )
    return None
