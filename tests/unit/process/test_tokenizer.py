"""A tokenizer is read once in a process; what one reader sets of it, others do not see."""

from pathlib import Path

import pytest
import transformers

from gfcr import models
from gfcr.errors import TaskError
from gfcr.process.tokenizer import tokenizer_of


def test_a_folder_is_read_once_until_its_files_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer_of(models.resolve("demo")).save_pretrained(tmp_path)
    made, reads = transformers.AutoTokenizer.from_pretrained, list[str]()
    monkeypatch.setattr(
        transformers.AutoTokenizer, "from_pretrained", lambda at: reads.append(at) or made(at)
    )
    left = tokenizer_of(tmp_path, padding_side="left")
    left.chat_template = "{{ messages }}"
    right = tokenizer_of(tmp_path)
    assert reads == [str(tmp_path)]
    assert (left.padding_side, right.padding_side) == ("left", "right")
    assert right.chat_template != left.chat_template
    assert left("1+2")["input_ids"] == right("1+2")["input_ids"]
    right.save_pretrained(tmp_path)
    tokenizer_of(tmp_path)
    assert len(reads) == 2
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert tokenizer_of(tmp_path).chat_template == "{{ messages }}"


def test_a_folder_without_one_says_what_to_save(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"has no tokenizer that can be loaded .*save_pretrained"):
        tokenizer_of(tmp_path)
