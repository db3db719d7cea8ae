"""Prints the largest gap between vLLM's and transformers' log-probs on a model folder."""

import os
import sys


def main(folder: str) -> None:
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import torch
    from transformers import AutoModelForCausalLM
    from vllm import LLM, SamplingParams

    llm = LLM(
        folder,
        dtype="float32",
        enforce_eager=True,
        kv_cache_memory_bytes=2**26,
        max_model_len=256,
        seed=0,
    )
    prompt = [4, 14, 5, 16]
    sampling = SamplingParams(temperature=1.0, max_tokens=24, logprobs=0, ignore_eos=True)
    made = llm.generate({"prompt_token_ids": prompt}, sampling)[0].outputs[0]
    sampled = [next(iter(entry.values())).logprob for entry in made.logprobs]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        tokens = torch.tensor([prompt + list(made.token_ids)])
        logprobs = model(tokens).logits.log_softmax(-1)[0, len(prompt) - 1 : -1]
    expected = logprobs.gather(-1, tokens[0, len(prompt) :, None])[:, 0]
    print((torch.tensor(sampled) - expected).abs().max().item())


if __name__ == "__main__":
    main(sys.argv[1])
