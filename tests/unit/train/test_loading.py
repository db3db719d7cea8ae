"""What is said where a GPU's memory is not enough."""

import pytest

from gfcr.errors import GfcrError

torch = pytest.importorskip("torch")


def test_a_gpu_without_memory_says_which_keys_give_some() -> None:
    from gfcr.train.loading import memory_told

    said = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79 GiB"
    with pytest.raises(GfcrError, match=r"allocate 2.50 GiB\. Give more trainer.m"), memory_told():
        raise torch.OutOfMemoryError(said)
    with pytest.raises(KeyError), memory_told():
        raise KeyError
