"""The entry point that vLLM calls in each of its processes."""

import sys
from importlib.metadata import entry_points

import pytest

from gfcr.engine import vllm_plugin


def test_vllm_finds_it_and_whoever_uses_vllm_without_gfcr_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (point,) = entry_points(group="vllm.general_plugins", name="gfcr_vllm")
    register = point.load()
    assert register is vllm_plugin.register
    monkeypatch.delenv(vllm_plugin.FIXES, raising=False)
    # An import of it fails now, also where another test has vLLM loaded.
    monkeypatch.setitem(sys.modules, "vllm.distributed.weight_transfer.factory", None)
    register()
    monkeypatch.setenv(vllm_plugin.FIXES, "1")
    with pytest.raises(ImportError):
        register()
