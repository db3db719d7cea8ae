"""A small chat model and a small GSM8K, to try this folder on a CPU: python small.py FOLDER.

FOLDER/model is of the architecture of Qwen2.5, with a tokenizer and a chat template of its kind. It
has seen one-step word problems: it knows the format, and guesses the numbers. FOLDER/data has the
subset, splits and columns of openai/gsm8k.
"""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from gfcr.process import environment

environment.settle()  # before torch is loaded

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.utils.rnn import pad_sequence

SYSTEM: str = yaml.safe_load(Path(__file__).with_name("base.yaml").read_text())["task"]["system"]
CHAT = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PAD, START, END = SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CARD = """---
configs:
- config_name: main
  data_files:
  - {split: train, path: train.jsonl}
  - {split: test, path: test.jsonl}
---
"""
SIZES = {"train": 800, "test": 300}
NAMES = ("Ann", "Ben", "Eva", "Ida", "Leo", "Max", "Mia", "Tom", "Una", "Zoe")
THINGS = ("cups", "eggs", "figs", "hats", "jars", "keys", "nuts", "pens")
MOST = 3
WRONG = 0.2
"""Share of demonstrations with any other number for an answer."""


def problem(rng: random.Random) -> dict[str, str]:
    """A row as GSM8K's: `question`, and `answer` with its steps and `#### 42`."""
    name, thing = rng.choice(NAMES), rng.choice(THINGS)
    more, less = rng.randint(1, MOST), rng.randint(1, MOST)
    if rng.random() < 0.5:
        done, sign, left = "gets", "+", more + less
    else:
        more, less = max(more, less), min(more, less)
        done, sign, left = "loses", "-", more - less
    question = f"{name} has {more} {thing} and {done} {less}. How many has {name} now?"
    return {"question": question, "answer": f"{more} {sign} {less} = {left}\n#### {left}"}


def demonstration(tokenizer: Any, rng: random.Random) -> tuple[list[int], list[int]]:
    row = problem(rng)
    answer = row["answer"]
    if rng.random() < WRONG:
        other = rng.randint(0, 2 * MOST)
        answer = f"{answer.partition('=')[0]}= {other}\n#### {other}"
    turns = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": row["question"]}]
    asked = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    return tokenizer(asked)["input_ids"], tokenizer(answer + END)["input_ids"]


def make_tokenizer() -> Any:
    def texts() -> Iterator[str]:
        rng = random.Random("words")
        for row in (problem(rng) for _ in range(2000)):
            yield f"system\n{SYSTEM}\nuser\n{row['question']}\nassistant\n{row['answer']}"

    made: Any = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer: Any = trainers.BpeTrainer(
        vocab_size=512, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts(), trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=PAD, eos_token=END, additional_special_tokens=[START]
    )
    tokenizer.chat_template = CHAT
    return tokenizer


def make_model(tokenizer: Any, *, steps: int = 100, rows: int = 16) -> Any:
    torch.manual_seed(0)
    pad, end = tokenizer.convert_tokens_to_ids([PAD, END])
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=pad,
    )
    model: Any = transformers.Qwen2ForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps)
    rng = random.Random("demonstrations")
    model.train()
    for _ in range(steps):
        pairs = [demonstration(tokenizer, rng) for _ in range(rows)]
        ids = pad_sequence([torch.tensor(p + a) for p, a in pairs], True, pad)
        labels = [torch.tensor([-100] * len(p) + a) for p, a in pairs]
        loss = model(input_ids=ids, labels=pad_sequence(labels, True, -100)).loss
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model


def make_data(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(CARD)
    rng = random.Random("data")
    rows = list({row["question"]: row for row in (problem(rng) for _ in range(4000))}.values())
    for split, size in SIZES.items():
        taken, rows = rows[:size], rows[size:]
        text = "".join(json.dumps(row) + "\n" for row in taken)
        (folder / f"{split}.jsonl").write_text(text)


def make(folder: Path) -> None:
    tokenizer = make_tokenizer()
    make_model(tokenizer).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    make_data(folder / "data")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
