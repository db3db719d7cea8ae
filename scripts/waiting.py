"""How long generations of a TRL script take where torch is loaded before gfcr: see docs/trl.md.

python scripts/waiting.py [--spinning]
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig

from gfcr.process import threads
from gfcr.tasks.chain_sum import ALPHABET
from gfcr.train.sft import char_tokenizer


def trainer(folder: Path) -> Any:
    from gfcr.drop_in import GRPOTrainer

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 32}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 256}
    ids = {"pad_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": True}
    tokenizer = char_tokenizer(ALPHABET)
    config = Qwen3Config(vocab_size=len(tokenizer), **sizes, **heads, **ids)
    prompts = [f"{a}+{b}=" for a in range(9) for b in range(9)]
    return GRPOTrainer(
        Qwen3ForCausalLM(config).float(),
        reward_funcs=lambda completions, **_: [float(len(text)) for text in completions],
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=3,
            num_generations=8,
            per_device_train_batch_size=16,
            gradient_accumulation_steps=2,
            max_completion_length=32,
            gradient_checkpointing=False,
            bf16=False,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=tokenizer,
        engine={"kv_cache_gib": 0.25},
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spinning", action="store_true", help="leave threads as they are")
    spinning = parser.parse_args().spinning
    with tempfile.TemporaryDirectory() as folder:
        if spinning:
            threads._calm = lambda: None
        made = trainer(Path(folder))
        begun = time.process_time()
        made.train()
        spent = time.process_time() - begun
    logged = [entry for entry in made.state.log_history if "time/generate_s" in entry]
    seconds = ", ".join(f"{entry['time/generate_s']:.2f}" for entry in logged)
    print(f"generations: {seconds} s; processor time of training: {spent:.1f} s")
    print(f"threads of torch: {torch.get_num_threads()}")


if __name__ == "__main__":
    main()
