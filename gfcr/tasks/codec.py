"""Conversion of text to tokens: a Hugging Face tokenizer, or one token per character."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from gfcr.errors import TaskError, near_file, shown

SPECIAL_TOKENS: Final = ("<pad>", "<eos>", "<bos>", "<unk>")
"""Special tokens of character vocabularies, with ids 0 to 3; the alphabet follows in its order."""


@final
@dataclass(frozen=True, kw_only=True)
class CharCodec:
    """One token per character. Agrees with the tokenizer of a demo model of the same alphabet."""

    alphabet: str
    _ids: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        start = len(SPECIAL_TOKENS)
        object.__setattr__(self, "_ids", {c: start + i for i, c in enumerate(self.alphabet)})

    @property
    def eos_id(self) -> int:
        """The token that ends a completion."""
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
        """Decodes tokens, skipping special ones."""
        start = len(SPECIAL_TOKENS)
        return "".join(self.alphabet[t - start] for t in tokens if t >= start)


@final
class HfCodec:
    """The tokenizer saved in a model folder, through its chat template where it has one."""

    def __init__(self, folder: str | Path, *, system: str = "", chat_template: str = "") -> None:
        """Loads the tokenizer.

        Args:
            folder: folder of the model.
            system: system prompt before every prompt.
            chat_template: file of a template in place of the tokenizer's own.

        Raises:
            TaskError: the folder has no tokenizer, or one without end-of-sequence token, there is
                no such template, or none that takes a system prompt.
        """
        import transformers

        loader: Any = transformers.AutoTokenizer  # the library's own types hide its signatures
        try:
            tokenizer = loader.from_pretrained(str(folder))
        except (OSError, ValueError) as error:
            raise TaskError(
                f"the model folder {folder} has no tokenizer that can be loaded "
                f"({str(error).strip().partition(chr(10))[0]}): save the model's own there "
                "(tokenizer.save_pretrained(...)), or give the folder that has both."
            ) from error
        if tokenizer.eos_token_id is None:
            raise TaskError(
                f"the tokenizer in {folder} has no eos_token, so completions cannot end: "
                "set one (tokenizer.eos_token = ...) and save it again."
            )
        self._tokenizer: Any = tokenizer
        self._folder = str(folder)
        self._eos = int(tokenizer.eos_token_id)
        if chat_template:
            tokenizer.chat_template = _read(chat_template)
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
        """The token that ends a completion."""
        return self._eos

    def prompt(self, text: str) -> tuple[int, ...]:
        """Encodes a prompt with the tokenizer's special tokens, as a user turn of its template."""
        if self._tokenizer.chat_template is None:
            return self._ids(text, special=True)
        return self._ids(self._rendered(text), special=False)

    def conversation(self, before: Sequence[Mapping[str, str]], *, text: str) -> tuple[int, ...]:
        """Encodes the user's next turn with those before it, whose system prompt is theirs.

        Raises:
            TaskError: the tokenizer has no chat template.
        """
        if self._tokenizer.chat_template is None:
            raise TaskError(
                f"prompts are conversations, and the tokenizer in {self._folder} has no chat "
                "template: give task.chat_template the file of one."
            )
        return self._ids(self._rendered(text, before=before), special=False)

    def encode(self, text: str) -> tuple[int, ...]:
        """Encodes text that continues a sequence: no special tokens."""
        return self._ids(text, special=False)

    def decode(self, tokens: Sequence[int]) -> str:
        """Decodes a completion without special tokens."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def _unseen(self, system: str) -> str | None:
        """Returns why the model would not see its system prompt, or its prompt; else None."""
        if self._tokenizer.chat_template is None:
            return "is missing, so that the model would not see it" if system else None
        try:
            rendered = self._rendered("-?-")
        except Exception as error:  # a template's own, for a role that it does not know
            return f"refuses it ({error})"
        left = [text for text in (system, "-?-") if text not in rendered]
        return f"leaves {shown(left[0])} out, so that the model would not see it" if left else None

    def _rendered(self, text: str, *, before: Sequence[Mapping[str, str]] = ()) -> str:
        own = () if any(turn["role"] == "system" for turn in before) else self._before
        turns = [*own, *before, {"role": "user", "content": text}]
        template = self._tokenizer.apply_chat_template
        return str(template(turns, add_generation_prompt=True, tokenize=False))

    def _ids(self, text: str, *, special: bool) -> tuple[int, ...]:
        """Encodes text, and refuses characters that the vocabulary lacks."""
        ids = tuple[int, ...](self._tokenizer(text, add_special_tokens=special)["input_ids"])
        unk = self._tokenizer.unk_token_id
        if unk is not None and unk in ids:
            bare = {c: self._tokenizer(c, add_special_tokens=False)["input_ids"] for c in set(text)}
            unknown = sorted(c for c, found in bare.items() if unk in found)
            raise _cannot_encode(text, unknown=unknown, known=f"the tokenizer in {self._folder}")
        return ids


def _read(chat_template: str) -> str:
    try:
        return Path(chat_template).expanduser().read_text()
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
