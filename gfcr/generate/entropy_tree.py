"""EPTree: trees of rollouts that fork at surprising tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, ClassVar, final

from annotated_types import Interval

from gfcr.stages import Generate, Session, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chain:
    """A trajectory of a tree and the first of its tokens that may be forked."""

    trajectory: Trajectory
    first: int


@final
@dataclass(kw_only=True)
class EntropyTree(Generate):
    """Grows a tree from each of the job's M samples by forking at high -log p tokens (EPTree).

    Each of `rounds` L rounds ranks the tokens of a whole tree, trunk and branches, by -log p;
    forks at the `forks` N highest; and samples `continuations` T new endings from before each of
    them. The group has M (1 + N L T) rollouts: 30 for the paper's (6, 2, 1, 2). Tokens before a
    fork are generated once and shared.

    Never forked: environment tokens, the last `tail` share of a chain, and a place that has been
    forked already. A tree with fewer eligible tokens grows fewer branches.

    `num_samples` of the job, and so the strategy's `group_size`, is the number of roots M.

    Hurts on short completions, where forks come too late or too early to differ, and doubles the
    latency: rounds wait for the chains of their tree.
    """

    paper: ClassVar[str] = "2506.11902"
    cell: ClassVar[str] = "C6.6"
    origin: ClassVar[str] = "P"

    forks: Annotated[int, Interval(ge=1, le=1000)] = 2
    rounds: Annotated[int, Interval(ge=1, le=100)] = 1
    continuations: Annotated[int, Interval(ge=1, le=1000)] = 2
    tail: Annotated[float, Interval(ge=0, lt=1)] = 0.1

    def rollouts(self, num_samples: int) -> int:
        return num_samples * (1 + self.forks * self.rounds * self.continuations)

    async def run(self, session: Session) -> None:
        roots = [session.open(index) for index in range(session.job.num_samples)]
        await session.gather(*(self._grow(root, session=session) for root in roots))

    async def _grow(self, root: Trajectory, *, session: Session) -> None:
        await root.sample()
        tree, taken = [_Chain(trajectory=root, first=0)], set[tuple[int, int]]()
        for _ in range(self.rounds):
            places = self._places(tree, taken=taken)
            taken |= set(places)
            branches = [
                _Chain(trajectory=tree[index].trajectory.fork(at), first=at + 1)
                for index, at in places
                for _ in range(self.continuations)
            ]
            await session.gather(*(branch.trajectory.sample() for branch in branches))
            tree += branches

    def _places(
        self, tree: Sequence[_Chain], *, taken: set[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """The (chain, token) pairs to fork at: the least likely tokens of the whole tree."""
        ranked = sorted(
            (chain.trajectory.logprobs[at], index, at)
            for index, chain in enumerate(tree)
            for at in self._eligible(chain)
            if (index, at) not in taken
        )
        return [(index, at) for _, index, at in ranked[: self.forks]]

    def _eligible(self, chain: _Chain) -> list[int]:
        """A branch's first token is left out: its place is the fork that made it."""
        tokens = chain.trajectory.tokens
        # Float noise must not skip one token more: 0.07 * 100 is 7.000000000000001.
        end = len(tokens) - ceil(self.tail * len(tokens) - 1e-9)
        return [at for at in range(chain.first, end) if chain.trajectory.mask[at]]
