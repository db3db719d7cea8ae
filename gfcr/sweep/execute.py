"""Runs a study."""

from collections.abc import Callable

from gfcr.sweep import searching
from gfcr.sweep.rounds import Sweep, rounds_of
from gfcr.sweep.study import Study, Trial, TrialEnd


def run(
    study: Study,
    *,
    fresh: bool = False,
    begin: Callable[[Trial], None] = lambda trial: None,
    watch: Callable[[Trial], None] = lambda trial: None,
) -> list[TrialEnd]:
    """Runs the trials that have not finished, in the order of the file.

    A failed one does not stop the others. Interrupted, the same call goes on where it was.

    Raises:
        ConfigError: the stopping rule does not fit the study.
        GfcrError: the launcher has nothing to run trials on.
    """
    if study.search is not None:
        return searching.run(study, fresh=fresh, begin=begin, watch=watch)
    return Sweep(study=study, fresh=fresh, begin=begin, watch=watch).run(rounds_of(study))
