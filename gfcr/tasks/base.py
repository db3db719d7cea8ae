"""The task contract: prompts with verifiable answers, and the verifier."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import getdoc
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, final, overload

from gfcr.errors import TaskError
from gfcr.handles import TOOLS, TURNS, Posed, Verdict
from gfcr.part import Part
from gfcr.tasks.turns import asked
from gfcr.types import Prompt

__all__ = ["TURNS", "Asked", "Codec", "Posed", "Problems", "Task", "Verdict", "encoded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A completion that is to be scored."""

    prompt: Prompt
    text: str
    tokens: tuple[int, ...] = ()
    """The completion's tokens, with the one that ended it; those of the text where a part asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problems:
    """The two splits of a task. Nothing in `heldout` is ever sampled for training."""

    train: Sequence[Prompt]
    heldout: Sequence[Prompt]
    in_order: bool = False
    """Whether training prompts keep their order, not shuffled each epoch: their mix may move."""
    about: str = ""
    """What was read and what was left out, for the start of a run to say in one line."""


@final
@dataclass(frozen=True, kw_only=True)
class LazyPrompts(Sequence[Prompt]):
    """Prompts made when they are looked at, so that a large dataset opens at once."""

    rows: Sequence[Any]
    """What prompts are made of. Those of a task say how many `characters` they have, about."""
    make: Callable[[Any], Prompt]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Prompt: ...
    @overload
    def __getitem__(self, index: slice) -> "LazyPrompts": ...
    def __getitem__(self, index: int | slice) -> "Prompt | LazyPrompts":
        if isinstance(index, slice):
            return LazyPrompts(rows=self.rows[index], make=self.make)
        return self.make(self.rows[index])


def first_line(documented: object) -> str:
    """Returns the first paragraph of an object's docstring, as one line."""
    return (getdoc(documented) or "").partition("\n\n")[0].replace("\n", " ")


class Codec(Protocol):
    """Converts text to tokens and back, for the model in use."""

    @property
    def eos_id(self) -> int:
        """Id of the token that ends a completion."""
        ...

    def prompt(self, text: str) -> tuple[int, ...]:
        """Encodes a prompt (through the chat template where the model has one)."""
        ...

    def encode(self, text: str) -> tuple[int, ...]:
        """Encodes text that continues a sequence (tool results, hints): no special tokens."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Decodes a completion without special tokens."""
        ...

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Returns the text of each token, special ones included."""
        return [self.decode([token]) for token in tokens]

    def unsaid(self, tokens: Sequence[int]) -> list[str]:
        """Returns the special tokens of a completion, its end aside, that `decode` leaves out."""
        return []


class Task(Part):
    """A family of prompts and how to score a completion.

    A task is a dataclass: its fields are its configuration. The file name is its name.
    """

    slow: ClassVar[bool] = False
    """True runs `verify` in a pool of killable processes with `timeout_s`, beside generation."""
    together: ClassVar[bool] = False
    """True scores all completions of a batch that wait for it in one call of `verify_all`, as soon
    as the engine has nothing else of it to decode: for rewards that compare completions."""
    system: str = ""
    """System prompt that a chat model gets before every prompt; empty gives none."""
    chat_template: str = ""
    """File of a Jinja template to use in place of the model's own; empty uses the model's."""
    chat_template_kwargs: Mapping[str, Any] = MappingProxyType({})
    """What the chat template is given besides, such as `enable_thinking`."""
    raw_text: bool = False
    """Whether completions are scored with their special tokens, the last one aside."""
    timeout_s: float = 10.0
    memory_gib: float = 4.0
    """GiB of data that a slow `verify`, and each process it starts, may have."""
    reward_range: ClassVar[tuple[float, float] | None] = None
    """Least and largest reward, infinite if there is none: intervals stay inside. None is not
    known: scores that all lie in [0, 1] are then taken for shares."""

    measures: ClassVar[bool] = False
    """Whether scores of a verdict are measurements beside the reward, which may all be alike."""
    kinds: ClassVar[tuple[str, ...]] = ()
    """Kinds of problems that `ask` can ask for; empty if the task cannot be asked."""

    @property
    def scoring(self) -> str:
        """A sentence on how `verify` scores, shown when all rewards are equal."""
        return f"{type(self).__name__}.verify: {first_line(type(self).verify)}"

    def range_of(self, prompt: Prompt) -> tuple[float, float] | None:
        """Returns the range of the rewards of one prompt's answers, as `reward_range`."""
        return self.reward_range

    def keep_columns(self, names: Collection[str]) -> None:
        """Is told before `problems` which columns of the data the strategy's parts read.

        A task whose prompts have all their columns in their `meta` need not heed it.

        Args:
            names: of columns; `*` is all.
        """

    @abstractmethod
    def problems(self, codec: Codec) -> Problems:
        """Makes or loads both splits, disjoint by content.

        Raises:
            TaskError: nothing to load, a column is missing, the answer is empty.
        """

    @abstractmethod
    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """Scores a completion's text, as a function of prompt and text alone.

        A completion for which it raises is recorded as unscorable. The first held-out answers are
        scored twice, and those whose reward differs the second time are counted and reported.
        """

    def verify_all(self, asked: Sequence[Asked]) -> Sequence[Verdict]:
        """Scores completions, those of one prompt one after another; a verdict for each.

        Where it raises or takes longer than `timeout_s`, it is asked again prompt by prompt, then
        one by one: completions for which it does so alone are unscorable.
        """
        return [self.verify(each.prompt, text=each.text) for each in asked]

    def at_level(self, codec: Codec, *, level: int, seed: int) -> Prompt:
        """Makes a new training problem, the harder the higher its level, from 0.

        It never is a held-out problem. Levels above the hardest give the hardest.

        Raises:
            TaskError: the task has no levels.
        """
        raise TaskError(
            f"task {type(self).__name__} has no levels of difficulty: give one that has, such as "
            "reasoning_gym or chain_sum, or an `at_level` of its own."
        )

    def ask(self, codec: Codec, *, kind: str, references: Sequence[Prompt]) -> Prompt:
        """Makes a prompt that asks for a problem of a kind, with others shown as examples.

        Its `meta` holds `role` (`PROPOSE`) and `kind`. `verify` gives the answer no reward: a part
        rewards it, by how the problem turns out.

        Raises:
            TaskError: the task cannot be asked for problems, or not with these references.
        """
        raise _cannot_ask(self)

    def pose(self, prompt: Prompt, *, text: str) -> Posed:
        """Makes a problem of the answer to a prompt of `ask`, or says why the answer is none.

        The problem's own answer is computed, as by running a program, and not taken from the text.
        It never is a held-out problem. `slow` tasks do this in the same processes as `verify`.
        """
        raise _cannot_ask(self)


def _cannot_ask(task: Task) -> TaskError:
    return TaskError(
        f"task {type(task).__name__} cannot be asked for problems: give one that can, such as "
        "programs, or `kinds`, `ask` and `pose` of its own."
    )


def encoded(text: str, *, meta: Mapping[str, Any], codec: Codec) -> tuple[int, ...]:
    """Encodes a prompt, in the place of what the user says last in the conversation of its `meta`.

    Raises:
        TaskError: the conversation ends with another's turn, and the text is not what it asks; or
            the codec has no chat template.
    """
    if not (told := meta.get(TURNS)):
        return codec.prompt(text)
    *before, last = told
    if last["role"] == "user":
        last = {**last, "content": text}
    elif text != asked(told):
        raise TaskError(
            "a conversation is worded anew in what its user says last, and this one ends with a "
            f"turn of '{last['role']}': leave dataset.template, or the part that does so, out."
        )
    if (render := getattr(codec, "conversation", None)) is None:
        raise TaskError("prompts are conversations, which need a model: this engine has none.")
    return render([*before, last], tools=meta.get(TOOLS, ()))
