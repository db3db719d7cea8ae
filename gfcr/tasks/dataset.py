"""Any Hugging Face dataset with a prompt and an answer column, scored by a named verifier."""

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any, final

from annotated_types import Interval

from gfcr.errors import ConfigError, TaskError
from gfcr.tasks import rows
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.tasks.rows import Row
from gfcr.tasks.verifiers.base import Verifier, load
from gfcr.types import Prompt
from gfcr.values.ranges import File, Fraction, Natural, Text, Word


@final
@dataclass(kw_only=True)
class Dataset(Task):
    """Prompts and answers of a local file, a folder or the Hub.

    Rows that repeat a prompt are left out, and no held-out prompt is left among those trained on.
    Prompts are tokenised when they are used.
    """

    reward_range = (0.0, 1.0)

    path: File
    """A .json, .jsonl, .csv or .parquet file, a folder written by `save_to_disk`, or a Hub name."""
    subset: Word = ""
    """The dataset's configuration on the Hub, where it has several."""
    split: Word = "train"
    prompt_column: Word = "prompt"
    answer_column: Word = "answer"
    template: Text = "{prompt}"
    """What the model is asked; `{prompt}` is the prompt column."""
    verifier: File = "exact"
    """exact, numeric, regex or math_verify."""
    verifier_options: dict[str, Any] = field(default_factory=dict[str, Any])
    heldout_split: Word = ""
    """Split to evaluate on; empty takes `heldout_fraction` of `split`, chosen by content."""
    heldout_fraction: Fraction = 0.1
    num_heldout: Natural = 256
    """Most held-out prompts to evaluate on."""
    timeout_s: Annotated[float, Interval(gt=0, le=86400)] = 10.0
    """Of one verification, for slow verifiers."""
    memory_gib: Annotated[float, Interval(ge=0.1, le=1e6)] = 4.0
    """Data that one verification may have, for slow verifiers."""

    def __post_init__(self) -> None:
        if "{prompt}" not in self.template:
            raise ConfigError(
                f"dataset.template={self.template!r} is not allowed: give a text that holds "
                "{prompt}."
            )
        assert self._verifier, "an unknown verifier or option is an error now, not at the end"

    @property
    def slow(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] # depends on a field
        """As the verifier says."""
        return self._verifier.slow

    @cached_property
    def _verifier(self) -> Verifier:
        return load(self.verifier, options=self.verifier_options, where="dataset.verifier")

    def problems(self, codec: Codec) -> Problems:
        """Loads both splits.

        Raises:
            TaskError: no such file, split or column, no rows, an answer that is empty or that the
                verifier cannot use, or characters that the model lacks.
        """
        found = self._rows(self.split)
        if self.heldout_split:
            heldout = self._rows(self.heldout_split)
            evaluated = {r.key for r in heldout}
            train = [r for r in found if r.key not in evaluated]
        else:
            heldout = [r for r in found if rows.fraction(r.key) < self.heldout_fraction]
            train = [r for r in found if rows.fraction(r.key) >= self.heldout_fraction]
        if not train:
            raise TaskError(
                f"dataset.path={self.path}: of {len(found)} prompts in split '{self.split}' none "
                "is left to train on, all are held out. Give another heldout_split or more rows."
            )
        heldout = sorted(heldout, key=lambda r: r.key)[: self.num_heldout]
        rows.check_characters([*train, *heldout], codec=codec, template=self.template)
        make = partial(self._prompt, codec=codec)
        return Problems(
            train=rows.LazyPrompts(rows=train, make=make),
            heldout=rows.LazyPrompts(rows=heldout, make=make),
        )

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """Asks the verifier."""
        return self._verifier.verify(text, answer=prompt.answer)

    def _rows(self, split: str) -> list[Row]:
        table = rows.open_table(self.path, subset=self.subset, split=split)
        return rows.read(
            table,
            prompt_column=self.prompt_column,
            answer_column=self.answer_column,
            check=self._verifier.check,
            where=f"dataset.path={self.path}, split '{split}'",
        )

    def _prompt(self, row: Row, *, codec: Codec) -> Prompt:
        text = self.template.replace("{prompt}", row.prompt)
        return Prompt(id=row.key, tokens=codec.prompt(text), text=text, answer=row.answer)
