"""Conversion of text to tokens: a Hugging Face tokenizer, or one token per character."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, final

from gfcr.errors import TaskError, near_file, shown
from gfcr.process.tokenizer import ends_of, read_json, tokenizer_of
from gfcr.tasks.turns import Turn, missing

NONE: Final = "none"
"""Stands for no chat template, in place of a file."""
SPECIAL_TOKENS: Final = ("<pad>", "<eos>", "<bos>", "<unk>")
"""Special tokens of character vocabularies, with ids 0 to 3; the alphabet follows in its order."""
_UNTHOUGHT: Final = re.compile(r"(?s)<think>\s*</think>\s*(?=<think>(?!.*</think>))")
"""No thought before one that is not at its end: templates take a begun one for an answer."""


@final
@dataclass(frozen=True, kw_only=True)
class CharCodec:
    """A `Codec` of one token per character, as the tokenizer of a demo model of that alphabet."""

    alphabet: str
    _ids: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        start = len(SPECIAL_TOKENS)
        object.__setattr__(self, "_ids", {c: start + i for i, c in enumerate(self.alphabet)})

    @property
    def eos_id(self) -> int:
        return SPECIAL_TOKENS.index("<eos>")

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return len(SPECIAL_TOKENS) + len(self.alphabet)

    def prompt(self, text: str) -> tuple[int, ...]:
        """Encodes a prompt; there is no template."""
        return self.encode(text)

    def encode(self, text: str) -> tuple[int, ...]:
        """Encodes text.

        Raises:
            TaskError: a character is not in the alphabet.
        """
        unknown = sorted(set(text) - self._ids.keys())
        if unknown:
            raise _cannot_encode(text, unknown=unknown, known=self.alphabet)
        return tuple(self._ids[c] for c in text)

    def decode(self, tokens: Sequence[int]) -> str:
        start = len(SPECIAL_TOKENS)
        return "".join(self.alphabet[t - start] for t in tokens if t >= start)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        return [([*SPECIAL_TOKENS, *self.alphabet])[t] for t in tokens]

    def unsaid(self, tokens: Sequence[int]) -> list[str]:
        return []  # special tokens of characters are no words


@final
class HfCodec:
    """The `Codec` of a tokenizer saved in a model folder, by its chat template where it has one."""

    def __init__(
        self,
        folder: str | Path,
        *,
        system: str = "",
        chat_template: str = "",
        chat_template_kwargs: Mapping[str, Any] = MappingProxyType({}),
        raw_text: bool = False,
    ) -> None:
        """Loads the tokenizer.

        Args:
            folder: folder of the model.
            system: system prompt before every prompt.
            chat_template: file of a template in place of the tokenizer's own, or `none`.
            chat_template_kwargs: what the template is given besides, such as `enable_thinking`.
            raw_text: whether decoded completions keep their special tokens, their end aside.

        Raises:
            TaskError: the folder has no tokenizer, or one without end-of-sequence token, there is
                no such template, or none that takes a system prompt.
        """
        tokenizer = tokenizer_of(folder)
        if tokenizer.eos_token_id is None:
            raise TaskError(
                f"the tokenizer in {folder} has no eos_token, so completions cannot end: "
                "set one (tokenizer.eos_token = ...) and save it again."
            )
        self._tokenizer: Any = tokenizer
        self._folder = str(folder)
        self._eos = int(tokenizer.eos_token_id)
        self._ends = ends_of(folder) | {self._eos}
        if chat_template:
            tokenizer.chat_template = None if chat_template == NONE else _read(chat_template)
        self._given, self._raw = dict(chat_template_kwargs), raw_text
        self._before = [{"role": "system", "content": system}] if system else []
        if problem := self._unseen(system.strip()):
            asked = f"task.system={shown(system)}: " if system else ""
            raise TaskError(
                f"{asked}the chat template {chat_template or f'of {folder}'} {problem}. Give "
                "task.chat_template the file of one that renders a system and a user turn, or "
                "write all into the prompt (task.template)."
            )

    @property
    def eos_id(self) -> int:
        return self._eos

    def unbegun(self, prompt: Sequence[int]) -> str:
        """Returns a warning if a prompt lacks the token that its model has met at each beginning.

        Empty where it has the token, or the model was trained without one, as Qwen's were.
        """
        bos = self._tokenizer.bos_token_id
        config = read_json(Path(self._folder) / "config.json")
        family, told = str(config.get("model_type", "")), config.get("bos_token_id")
        if bos in (None, self._eos, *prompt[:1]) or told != bos or family.startswith("qwen"):
            return ""
        name = self._tokenizer.bos_token
        where = "write {{ bos_token }} into the chat template"
        if self._tokenizer.chat_template is None:
            where = "save the tokenizer with add_bos_token=True"
        return (
            f"prompts do not begin with {name}, and models of the kind {family} are trained with "
            f"it at each beginning; without, what they say is noise: {where}."
        )

    def prompt(self, text: str) -> tuple[int, ...]:
        """Encodes a prompt with the tokenizer's special tokens, as a user turn of its template.

        A tokenizer that ends each text with its end-of-sequence token does not end a prompt so: a
        policy would be asked to go on after an end. Nor does a prompt begin twice.
        """
        if self._tokenizer.chat_template is None:
            ids = self._ids(text, special=True)
            begun = ids[:2] == (self._tokenizer.bos_token_id,) * 2  # the text's own, and another
            return ids[begun : len(ids) - (ids[-1:] == (self._eos,))]
        return self._ids(self._rendered([{"role": "user", "content": text}]), special=False)

    def conversation(
        self, turns: Sequence[Turn], *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[int, ...]:
        """Encodes a conversation as its template renders it, for the assistant to go on.

        One that ends with a turn of the assistant is its answer's beginning, and is continued; one
        of its thoughts is not behind others. The system prompt is the conversation's own, where it
        has one.

        Raises:
            TaskError: the tokenizer has no chat template, or one that leaves tools or their calls
                out, or refuses a turn.
        """
        if self._tokenizer.chat_template is None:
            raise TaskError(
                f"prompts are conversations, and the tokenizer in {self._folder} has no chat "
                "template: give task.chat_template the file of one."
            )
        try:
            rendered = self._rendered(turns, tools=tools)
        except Exception as error:  # a template's own, for turns that it does not know
            raise TaskError(f"the chat template refuses a conversation ({error}).") from error
        if name := missing(rendered, turns=turns, tools=tools):
            raise TaskError(
                f"the chat template leaves {name} out, so that the model would not see it: give "
                "task.chat_template the file of one that renders it, or change the row."
            )
        return self._ids(rendered, special=False)

    def marks(self, text: str) -> list[str]:
        """Returns the special tokens that a text spells out, if a template goes around it."""
        return [*dict.fromkeys(self._spelt.findall(text))] if self._tokenizer.chat_template else []

    @cached_property
    def _spelt(self) -> "re.Pattern[str]":
        """Any special token: a vocabulary may have thousands, and data sets millions of rows."""
        return re.compile("|".join(map(re.escape, self._special().values())))

    def encode(self, text: str) -> tuple[int, ...]:
        return self._ids(text, special=False)

    def decode(self, tokens: Sequence[int]) -> str:
        """Decodes a completion without special tokens, or with all but its end."""
        ids = [*tokens[:-1]] if self._raw and self._ends & {*tokens[-1:]} else [*tokens]
        return str(self._tokenizer.decode(ids, skip_special_tokens=not self._raw))

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        return [str(self._tokenizer.decode([token])) for token in tokens]

    def unsaid(self, tokens: Sequence[int]) -> list[str]:
        if self._raw:
            return []
        special = self._special()
        ends = (*self._ends, self._tokenizer.pad_token_id)
        return sorted({special[t] for t in tokens if t in special and t not in ends})

    def _special(self) -> dict[int, str]:
        """Returns the special tokens by id, with those that were added to the vocabulary."""
        added: Mapping[int, Any] = self._tokenizer.added_tokens_decoder
        named = zip(
            self._tokenizer.all_special_ids, self._tokenizer.all_special_tokens, strict=True
        )
        return {**dict(named), **{i: str(t) for i, t in added.items() if t.special}}

    def _unseen(self, system: str) -> str | None:
        """Returns why the model would not see its system prompt, or its prompt; else None."""
        if self._tokenizer.chat_template is None:
            return "is missing, so that the model would not see it" if system else None
        try:
            rendered = self._rendered([{"role": "user", "content": "-?-"}])
        except Exception as error:  # a template's own, for a role that it does not know
            return f"refuses it ({error})"
        left = [text for text in (system, "-?-") if text not in rendered]
        return f"leaves {shown(left[0])} out, so that the model would not see it" if left else None

    def _rendered(self, turns: Sequence[Turn], *, tools: Sequence[Mapping[str, Any]] = ()) -> str:
        own = () if any(turn["role"] == "system" for turn in turns) else self._before
        begun = turns[-1]["role"] == "assistant"
        rendered = str(
            self._tokenizer.apply_chat_template(
                [*own, *turns],
                tools=list(tools) or None,
                add_generation_prompt=not begun,
                continue_final_message=begun,
                tokenize=False,
                **self._given,
            )
        )
        return _UNTHOUGHT.sub("", rendered) if begun else rendered

    def _ids(self, text: str, *, special: bool) -> tuple[int, ...]:
        """Encodes text, and refuses characters that the vocabulary lacks."""
        ids = tuple[int, ...](self._tokenizer(text, add_special_tokens=special)["input_ids"])
        unk = self._tokenizer.unk_token_id
        if unk is not None and unk in ids:
            bare = {c: self._tokenizer(c, add_special_tokens=False)["input_ids"] for c in set(text)}
            # There is none in a text that spells the token out, as GPT-2's `<|endoftext|>`.
            if unknown := sorted(c for c, found in bare.items() if unk in found):
                known = f"the tokenizer in {self._folder}"
                raise _cannot_encode(text, unknown=unknown, known=known)
        return ids


def _read(chat_template: str) -> str:
    try:
        return Path(chat_template).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(
            f"task.chat_template={chat_template} cannot be read: {error}."
            f"{near_file(Path(chat_template))} Give a file with a Jinja template, such as a "
            "model's chat_template.jinja."
        ) from error


def _cannot_encode(text: str, *, unknown: Sequence[str], known: str) -> TaskError:
    return TaskError(
        f"the model's vocabulary has no token for {' '.join(map(repr, unknown))} in the text "
        f"{shown(text)} (known: {known}). Use a model whose tokenizer covers this task, such as "
        "model=demo-ascii or a Hub model, or a task made for this model, such as task=chain_sum."
    )
