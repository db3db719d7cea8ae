"""Episodes in an environment: the policy acts, the environment answers and says their worth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, final

from annotated_types import Len

from gfcr.errors import TaskError, shown
from gfcr.generate._scenes import EpisodeLost, Scenes
from gfcr.generate.environments.base import Environment, Observation, World
from gfcr.generate.environments.hosted import Hosted
from gfcr.generate.environments.tool_call import ToolCall
from gfcr.handles import Verdict
from gfcr.stages import Generate, Session
from gfcr.types import FinishReason
from gfcr.values.ranges import Count, Positive, Text
from gfcr.values.templates import holding


@final
@dataclass(kw_only=True)
class Episode(Generate):
    """Samples an action up to the stop text, lets the environment answer, and samples on.

    An episode is a_1, o_1, a_2, o_2, ...: actions a sampled by the policy, observations o of the
    environment. The tokens sampled are those trained, and none is encoded anew; observations are
    out of the loss and of the ledger. The environment says what the episode is worth, at its end or
    step by step, or leaves it to the task's verifier. One that fails, or takes longer than
    `timeout_s`, makes its episode unscorable, and its siblings go on.

    With `per_turn` each turn is a rollout of its own, whose prompt is the history up to there, and
    an environment may rewrite that history. All turns of an episode have its reward; the filter
    `episode_advantage` compares episodes, not turns. Where the history is only added to, the loss
    over tokens is that of the one long rollout.

    An episode cannot be gone on with in another process: after a restart its group is begun anew.

    Hurts with slow environments and small groups, where the engine waits; and `per_turn` where
    histories are long, which the trainer then reads once for each turn.
    """

    paper: ClassVar[str] = "2505.07773"
    cell: ClassVar[str] = "G4.2"
    origin: ClassVar[str] = "ours"
    tokenwise: ClassVar[bool] = True

    environment: Environment = field(default_factory=ToolCall)
    """`tool_call`, `trl`, `openenv`, or a class of yours, `package.module:Class`."""
    stop: Annotated[str, Len(0, 200)] = "="
    """Ends an action: a text, or one special token. Empty is the end of sequence: each turn is then
    a message, and only the environment ends the episode."""
    template: Annotated[Text, Len(13, 10_000)] = "{observation}"
    """How an observation joins the text; for a chat model with the ends of its turns around it."""
    max_turns: Count = 16
    """Most actions. Where `stop` is a text the last one is sampled without it, so that the policy
    can still finish."""
    per_turn: bool = False
    timeout_s: Positive = 60.0
    """Of one answer of the environment."""

    def __post_init__(self) -> None:
        holding(self.template, "observation", where="episode.template")

    def check(self, encode: Callable[[str], Sequence[int]]) -> None:
        self.environment.check()
        encode(self.template.replace("{observation}", ""))
        encode(self.stop)

    def rollouts(self, num_samples: int) -> int:
        return num_samples * self._most

    async def run(self, session: Session) -> None:
        await session.gather(*(self._play(i, session) for i in range(session.job.num_samples)))

    def _world(self) -> World:
        world = self.environment.make()
        world.stop = self.stop
        return world

    @property
    def _most(self) -> int:
        """Rollouts that an episode may become."""
        return self.max_turns if self.per_turn else 1

    async def _play(self, index: int, session: Session) -> None:
        hosted = Hosted(self._world, timeout_s=self.timeout_s)
        scenes = Scenes(index, session=session, template=self.template, most=self._most)
        try:
            last = await self._act(scenes, hosted=hosted, session=session)
            verdict = await self._verdict(last, scenes=scenes, hosted=hosted, session=session)
        except (EpisodeLost, TaskError) as lost:  # or it says what no token is there for
            verdict = Verdict(reward=None, error=str(lost))
        finally:
            hosted.close()  # also where the group is cut
        scenes.judge(verdict)

    async def _act(self, scenes: Scenes, *, hosted: Hosted, session: Session) -> str:
        """Plays to the end; returns what the policy wrote last without an answer."""
        view, prompt = session.view, session.job.prompt
        # The prompt alone is the seed: all episodes of a group begin in the same state, so that
        # their outcomes differ by what the policy did.
        number = int(view.rng("episode", prompt.id).integers(2**31))
        first = await _seen(lambda w: w.begin(prompt, seed=number), hosted, session)
        if first.done:
            raise EpisodeLost(f"the episode was over before the policy acted ({first.reason})")
        scenes.begin(first)
        for turn in range(1, self.max_turns + 1):
            final = turn == self.max_turns
            stop = "" if final else self.stop
            sampled = await scenes.now.sample(stop=stop, ends=bool(self.stop))
            action = view.decode(sampled.tokens)
            if not sampled.stopped or sampled.ended:
                return action
            seen = await _seen(lambda w, said=action: w.act(said), hosted, session)
            scenes.earn(seen.reward)
            if seen.done:
                scenes.now.end(seen.reason)
            if seen.done or final or not scenes.go_on(seen):
                break
        return ""

    async def _verdict(
        self, last: str, *, scenes: Scenes, hosted: Hosted, session: Session
    ) -> Verdict:
        if scenes.now.finish == FinishReason.ABORTED:
            return Verdict(reward=None)
        given = await _asked(lambda world: world.verdict(last), hosted, session)
        if given is None and scenes.earned is not None:
            given = Verdict(reward=scenes.earned)
        return await session.verify(scenes.text) if given is None else given


async def _seen(question: Callable[[World], Any], hosted: Hosted, session: Session) -> Observation:
    answer = await _asked(question, hosted, session)
    if not isinstance(answer, Observation):
        raise EpisodeLost(f"the environment returned {shown(answer)}: return an Observation")
    return answer


async def _asked(question: Callable[[World], Any], hosted: Hosted, session: Session) -> Any:
    try:
        return await session.call(hosted.wait, hosted.ask(question))
    except RuntimeError as error:  # in the environment's own words
        raise EpisodeLost(str(error)) from error
