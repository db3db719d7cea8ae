"""The rollouts that an episode is: one, or one a turn, each under the history before it."""

from collections.abc import Sequence
from typing import final

from gfcr.errors import shown
from gfcr.generate.environments.base import Observation
from gfcr.handles import EPISODE, STATE, STEP_REWARD, TURNS, Verdict
from gfcr.stages import Session, Trajectory
from gfcr.values.numbers import real


class EpisodeLost(RuntimeError):
    """An episode that nobody can go on with, or score: the environment's fault."""


@final
class Scenes:
    """Where an episode goes on: behind its tokens, or in a new rollout whose prompt they are."""

    def __init__(self, index: int, *, session: Session, template: str, most: int) -> None:
        """Begins with nothing sampled.

        Args:
            index: of the episode in its job.
            session: opens the rollouts.
            template: of what is observed.
            most: rollouts that the episode becomes: one, or one a turn.
        """
        self._index, self._session, self._template = index, session, template
        self._most = most
        self._opened: list[Trajectory] = []
        self._before: tuple[int, ...] = ()
        """Tokens sampled and written in the rollouts before this one."""
        self.earned: float | None = None
        """The sum of the steps' rewards; None where none was given."""

    @property
    def now(self) -> Trajectory:
        """Returns where it goes on."""
        return self._opened[-1]

    @property
    def text(self) -> str:
        """All that was sampled and written, as a verifier is shown it."""
        return self.now.text(behind=self._before)

    def begin(self, seen: Observation) -> None:
        """Opens the first rollout, under the job's prompt with what was observed behind it."""
        if seen.history is not None:
            self._open(seen.history, anew=True)
        else:
            self._open(self._session.job.prompt.text + seen.text if seen.text else None)
        self._in(seen.state)

    def earn(self, reward: float | None) -> None:
        """Takes down what the last action was worth."""
        if reward is None:
            return
        if real(reward) is None:
            said = f"the environment rewarded a step with {shown(reward)}"
            raise EpisodeLost(f"{said}: give a finite number, or None")
        self.earned = (self.earned or 0.0) + float(reward)
        if self._most > 1:
            self.now.notes[STEP_REWARD] = float(reward)

    def go_on(self, seen: Observation) -> bool:
        """Takes in what was observed; whether there is room to act on it."""
        view, last = self._session.view, self.now
        rewritten = seen.history is not None
        if rewritten and self._most == 1:
            raise EpisodeLost("the environment gave another history: set episode.per_turn=true")
        said = "" if rewritten else self._template.replace("{observation}", seen.text)
        written = view.encode(said) if said else ()
        before = (*self._before, *last.tokens, *written)
        # The cap is the episode's, so that turns of one rollout each are not given more room.
        if self._most == 1 or len(before) >= self._session.job.sampling.max_tokens:
            last.append(written)
            return last.finish is None
        self._before = before
        if seen.history is not None:
            self._open(seen.history, anew=True)
        else:
            tokens = (*last.prompt.tokens, *last.tokens, *written)
            self._open(last.prompt.text + view.decode((*last.tokens, *written)), tokens=tokens)
        self._in(seen.state)
        return True

    def judge(self, verdict: Verdict) -> None:
        """Gives all of the episode what it is worth."""
        if not self._opened:  # it failed before it began
            self._open()
        for trajectory in self._opened:
            trajectory.judge(verdict)

    def _in(self, state: str | None) -> None:
        if state is not None and self._most > 1:
            self.now.notes[STATE] = state

    def _open(
        self, text: str | None = None, *, tokens: Sequence[int] = (), anew: bool = False
    ) -> None:
        job, view = self._session.job, self._session.view
        left = job.sampling.max_tokens - len(self._before)
        prompt = None
        if text is not None:
            own = job.prompt
            meta = {k: v for k, v in own.meta.items() if k != TURNS or not anew}
            prompt = view.prompt(text, answer=own.answer, meta=meta, tokens=tokens)
            # `room` leaves space for the run's whole cap, of which the episode needs only `left`.
            most = view.room + view.sampling.max_tokens - left
            if not 0 < len(prompt.tokens) <= most:
                raise EpisodeLost(
                    f"the environment's history has {len(prompt.tokens)} tokens; at most {most} "
                    f"leave room for the {left} that the episode may still have"
                )
        turn = len(self._opened)
        # Each episode has places of its own behind those of first turns, as seeds go by them:
        # what one episode samples does not depend on how many turns another has had.
        place = job.num_samples + self._index * (self._most - 1) + turn - 1
        opened = self._session.open(
            place if turn else self._index,
            prompt=prompt,
            max_tokens=left,
            verify=False,
        )
        self._opened.append(opened)
        opened.notes |= {EPISODE: float(self._opened[0].name), "turn": float(turn)}
