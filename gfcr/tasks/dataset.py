"""Any Hugging Face dataset with a prompt and an answer column, scored by a named verifier."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any, final

from annotated_types import Interval

from gfcr.errors import ConfigError, TaskError, did_you_mean
from gfcr.handles import TOOLS, TURNS
from gfcr.tasks import rows
from gfcr.tasks.base import Asked, Codec, LazyPrompts, Problems, Task, Verdict, encoded
from gfcr.tasks.codec import HfCodec
from gfcr.tasks.functions import Function
from gfcr.tasks.rewards import EVALUATED, Rewards, scorer
from gfcr.tasks.rows import Row
from gfcr.tasks.table import Columns, Read, read
from gfcr.tasks.verifiers.base import ANSWERS, Scorer
from gfcr.types import Prompt
from gfcr.values.columns import COLUMNS
from gfcr.values.ranges import File, Finite, Fraction, Natural, Options, Text, Word
from gfcr.values.templates import holding


@final
@dataclass(kw_only=True)
class Dataset(Task):
    """Prompts and answers of a local file, a folder or the Hub.

    Rows that repeat another are left out, those with another answer to the same prompt are kept
    apart, and no held-out prompt is left among those trained on. Prompts are tokenised when they
    are used.
    """

    path: File
    """A .json, .jsonl, .csv or .parquet file, a folder written by `save_to_disk`, or a Hub name."""
    subset: Word = ""
    """Configuration of the dataset on the Hub, if it has several."""
    split: Word = "train"
    prompt_column: Word = "prompt"
    """Column of texts, or of conversations: lists of `{role, content}`, the last one a user's, a
    tool's, or the beginning of the answer. `COLUMN.FIELD` looks into a nested one."""
    answer_column: Word = "answer"
    """Column of answers, or of lists of answers of which any will do; empty for none."""
    tools_column: Word = "tools"
    """Column of the tools that a chat template offers, JSON schemas, where the data has it."""
    template: Text = "{prompt}"
    """Prompt for the model; `{prompt}` is replaced by the prompt column."""
    system: Text = ""
    """System prompt that a chat model gets before every prompt; empty gives none."""
    chat_template: File = ""
    """File of a Jinja template to use in place of the model's own; empty uses the model's, and
    `none` none at all, for prompts that are rendered already."""
    chat_template_kwargs: Options = field(default_factory=dict[str, Any])  # pyright: ignore[reportIncompatibleVariableOverride] # a field of it
    """What the chat template is given besides, such as `enable_thinking: false`."""
    verifier: File = "exact"
    """Scores held-out answers, and rollouts where there are no `rewards`: exact, numeric, regex,
    math_verify, unit_tests, sql, cascade, or a function of yours, `path/to/file.py:name` or
    `module:name`."""
    verifier_options: Options = field(default_factory=dict[str, Any])
    verifier_range: tuple[Finite, Finite] | None = None
    """Least and largest score of your own function as `verifier`; a score outside is an error."""
    rewards: Options = field(default_factory=dict[str, Any])
    """Rewards for training in place of `verifier`, by name, `{verifier, options, weight}` each: the
    weighted sum of those that score a rollout."""
    heldout_split: Word = ""
    """Split to evaluate on; empty takes `heldout_fraction` of `split`, chosen by content."""
    heldout_fraction: Fraction = 0.1
    num_heldout: Natural = 256
    """Most held-out prompts to evaluate on."""
    raw_text: bool = False
    """Whether completions are scored with their special tokens, such as `<think>` where it is one,
    the one that ends them aside."""
    in_process: bool = False
    """Whether functions of yours are called in the process of the run, where one that hangs cannot
    be ended: for those that need what only it has."""
    timeout_s: Annotated[float, Interval(gt=0, le=86400)] = 10.0
    """Seconds for one call of a slow verifier, as functions of yours are: one that takes lists is
    called once for all completions, and prompt by prompt where that fails or takes longer."""
    memory_gib: Annotated[float, Interval(ge=0.1, le=1e6)] = 4.0
    """GiB of data that one verification may have, for slow verifiers."""

    def __post_init__(self) -> None:
        holding(self.template, "prompt", where="dataset.template")
        # An unknown verifier or option is an error now, not at the end.
        self._scorers = (self._verifier, *self._trained_on.named.values())
        bounds, own = self.verifier_range, isinstance(self._verifier, Function)
        if bounds is not None and not (own and bounds[0] < bounds[1]):
            raise ConfigError(
                f"dataset.verifier_range={list(bounds)} is not allowed: give the least and the "
                "largest score, as [0, 1], of a verifier that is a function of yours; those of "
                "gfcr's own are known."
            )
        if self.in_process and (apart := self._apart):
            raise ConfigError(
                f"dataset.in_process=true is not allowed: {type(apart[0]).__name__} runs where it "
                "can be ended, and your functions would be called there with it. Give verifiers "
                "that are not slow, such as numeric, or in_process=false."
            )
        self._columns = any(made.columns for made in self._scorers)
        self._kept = frozenset[str]()
        needed = sum(made.seconds for made in self._scorers)
        if needed >= self.timeout_s:
            raise ConfigError(
                f"dataset.timeout_s={self.timeout_s:g} is not allowed: its verifiers may take "
                f"{needed:g} s by their own options, and what they time out is worth 0, not "
                "unscorable. Give more."
            )

    @property
    def reward_range(self) -> tuple[float, float] | None:  # pyright: ignore[reportIncompatibleVariableOverride] # depends on a field
        """Range of held-out scores: [0, 1] for gfcr's verifiers, else `verifier_range`."""
        bounds = self.verifier_range if isinstance(self._verifier, Function) else (0.0, 1.0)
        return None if bounds is None else (bounds[0], bounds[1])

    def range_of(self, prompt: Prompt) -> tuple[float, float] | None:
        """Returns none for what `rewards` are given for, else that of held-out scores."""
        return None if self._is_rewarded(prompt) else self.reward_range

    def _is_rewarded(self, prompt: Prompt) -> bool:
        return bool(self.rewards) and EVALUATED not in prompt.meta

    @property
    def slow(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] # depends on a field
        """Returns whether any verifier is slow: your own functions are, unless told otherwise."""
        return bool(self._apart)

    @property
    def _apart(self) -> list[Scorer]:
        own = Function if self.in_process else ()
        return [made for made in self._scorers if made.slow and not isinstance(made, own)]

    @property
    def together(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] # depends on a field
        """Returns whether any is a function of yours that takes lists of completions, as TRL's."""
        return any(isinstance(made, Function) and made.together for made in self._scorers)

    @property
    def measures(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] # depends on a field
        """Returns whether scores are what a verifier of gfcr's tells beside its verdict."""
        return not self.rewards

    @property
    def scoring(self) -> str:
        """The description of each verifier that rollouts are trained by."""
        named = {f"rewards.{n}": made for n, made in self._trained_on.named.items()}
        told = named or {"verifier": self._verifier}
        return " ".join(f"dataset.{n}: {made.describe()}" for n, made in told.items())

    @cached_property
    def _verifier(self) -> Scorer:
        return scorer(self.verifier, options=self.verifier_options, where="dataset.verifier")

    @cached_property
    def _trained_on(self) -> Rewards:
        return Rewards(self.rewards, where="dataset.rewards")

    def keep_columns(self, names: Collection[str]) -> None:
        self._kept = frozenset(names)

    def problems(self, codec: Codec) -> Problems:
        """Loads both splits.

        Raises:
            TaskError: no such file, split or column, no rows, an answer that is empty or that the
                verifier cannot use, or characters that the model lacks.
        """
        table = self._table(self.split)
        self._check_kept(table.column_names)
        read = self._read(table, self.split)
        asked_of, held_of = table, read
        if self.heldout_split:
            asked_of = self._table(self.heldout_split)
            held_of = self._read(asked_of, self.heldout_split)
            heldout = held_of.rows
        else:
            heldout = [r for r in read.rows if rows.fraction(r.asked) < self.heldout_fraction]
        evaluated = {r.asked for r in heldout}
        train = [r for r in read.rows if r.asked not in evaluated]
        if not train:
            raise TaskError(
                f"dataset.path={self.path}: of {len(read.rows)} prompts in split '{self.split}' "
                "none is left to train on, all are held out. Give another heldout_split or more "
                "rows."
            )
        heldout = sorted(heldout, key=lambda r: r.key)[: self.num_heldout]
        rows.check_characters([*train, *heldout], codec=codec, template=self.template)
        make = partial(self._prompt, codec=codec)
        marked: dict[str, object] = {EVALUATED: True} if self.rewards else {}
        return Problems(
            train=LazyPrompts(
                rows=train, make=partial(make, table=self._columns_of(table), meta={})
            ),
            heldout=LazyPrompts(
                rows=heldout, make=partial(make, table=self._columns_of(asked_of), meta=marked)
            ),
            about=f"{read.about}; {len(train):,} to train on, {len(heldout):,} held out"
            + (f" (of {held_of.about})" if held_of is not read else "")
            + _marked(train, codec=codec),
        )

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """Asks the verifier, and of what is trained on the rewards where there are any."""
        return self.verify_all([Asked(prompt=prompt, text=text)])[0]

    def verify_all(self, asked: Sequence[Asked]) -> Sequence[Verdict]:
        """Asks the rewards, and the verifier where there are none and of held-out answers."""
        trained = [self._is_rewarded(each.prompt) for each in asked]
        found = dict[int, Verdict]()
        scorers = {True: self._trained_on.judge_all, False: self._verifier.judge_all}
        for rewarded, score in scorers.items():
            if some := [i for i, is_trained in enumerate(trained) if is_trained == rewarded]:
                found |= zip(some, score([asked[i] for i in some]), strict=True)
        return [found[i] if t else self._in_range(found[i]) for i, t in enumerate(trained)]

    def _in_range(self, verdict: Verdict) -> Verdict:
        bounds = self.verifier_range
        if bounds is None or verdict.reward is None or bounds[0] <= verdict.reward <= bounds[1]:
            return verdict
        told = f"VerdictError: {verdict.reward:g} is outside dataset.verifier_range={list(bounds)}"
        return Verdict(reward=None, error=told)

    def _table(self, split: str) -> Any:
        table = rows.open_table(self.path, subset=self.subset, split=split)
        missing = (made.lacks(table.column_names) for made in self._scorers)
        if lacking := next(filter(None, missing), None):
            raise TaskError(
                f"dataset.path={self.path}, split '{split}': {lacking}, which is no column. "
                f"Columns: {', '.join(table.column_names)}. Give it as one of the function's "
                "options, or a default."
            )
        return table

    def _check_kept(self, columns: Sequence[str]) -> None:
        # `answer` is what the answer column holds, under whatever name.
        if lacking := sorted(self._kept - {*columns, "*", "answer"}):
            raise TaskError(
                f"dataset.path={self.path}, split '{self.split}': a part of the strategy reads "
                f"'{lacking[0]}', which is no column.{did_you_mean(lacking[0], columns)} "
                f"Columns: {', '.join(columns)}."
            )

    def _columns_of(self, table: Any) -> Any:
        """Returns the columns that prompts are told, or None where nothing reads any."""
        if self._columns or "*" in self._kept:
            return table
        names = [name for name in table.column_names if name in self._kept]
        return table.select_columns(names) if names else None

    @property
    def columns(self) -> Columns:
        """Returns which of its tables' columns holds what."""
        return Columns(
            prompt=self.prompt_column,
            answer=self.answer_column,
            tools=self.tools_column,
            tools_key="tools_column" if self.tools_column != type(self).tools_column else "",
            all=self._columns,
        )

    def _read(self, table: Any, split: str) -> Read:
        where = f"dataset.path={self.path}, split '{split}'"
        if table.info.builder_name == "csv":  # functions get the numbers of `table`
            names = table.column_names
            with suppress(TaskError):  # a card may declare types that a text, `NA`, is not of
                table = rows.open_table(self.path, subset=self.subset, split=split, texts=names)
        return read(table, columns=self.columns, check=self._check, where=where)

    def _check(self, answer: str) -> str | None:
        return next((said for made in self._scorers if (said := made.check(answer))), None)

    def _prompt(self, row: Row, *, codec: Codec, table: Any, meta: Mapping[str, object]) -> Prompt:
        text = self.template.replace("{prompt}", row.prompt)
        columns: dict[str, object] = {} if table is None else table[row.number]
        if columns and not self._columns:
            columns = {COLUMNS: columns}
        answer, *others = row.answers
        more = {ANSWERS: row.answers} if others else {}
        told = {k: v for k, v in {TURNS: row.turns, TOOLS: row.tools}.items() if v}
        try:
            tokens = encoded(text, meta=told, codec=codec)
        except TaskError as error:
            raise TaskError(f"row {row.number}: {error}") from error
        held = {**columns, **more, **told, **meta}
        return Prompt(id=row.key, tokens=tokens, text=text, answer=answer, meta=held)


def _marked(train: Sequence[Row], *, codec: Codec) -> str:
    """Returns a warning if prompts spell out special tokens, as those rendered already do."""
    if not isinstance(codec, HfCodec):
        return ""
    found = [marks for row in train if not row.turns and (marks := codec.marks(row.prompt))]
    if not found:
        return ""
    return (
        f". WARNING: {len(found):,} prompts hold special tokens ({', '.join(found[0])}), and the "
        "chat template goes around them: give task.chat_template=none if they are rendered already"
    )
