"""Which drafters servers run, and what they are told."""

import json
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import final

import pytest
import torch
from safetensors.torch import save_file

from gfcr import registry
from gfcr.engine import server_child
from gfcr.engine.pool import Pool
from gfcr.engine.rose import Rose
from gfcr.engine.server_settings import is_served
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_arguments import arguments
from gfcr.engine.vllm_gate import GATE
from gfcr.engine.vllm_model import ModelFolder, open_folder
from gfcr.engine.vllm_rest import REST
from gfcr.engine.vllm_server import VllmServer
from gfcr.errors import ConfigError, EngineError
from gfcr.process.cores import SERVERS
from gfcr.speculation.base import BuiltIn
from gfcr.speculation.ngram import Ngram
from tests.cases import over
from tests.commands import gfcr
from tests.unit.engine.served import Served

SIZES = {"vocab_size": 50, "max_position_embeddings": 64, "num_hidden_layers": 2}


@final
@dataclass(kw_only=True)
class Paced(BuiltIn):
    """One of vLLM's methods, with a pace of its own."""

    @property
    def max_draft(self) -> int:
        return 2

    def pace(self, *, running: int) -> int:
        return 2 if running < 4 else 0

    def settings(self) -> dict[str, object]:
        return {"method": "ngram", "num_speculative_tokens": 2}


def test_what_steers_the_engine_between_steps_is_not_for_a_server() -> None:
    served = {n for n in registry.names("drafter") if is_served(registry.find("drafter", n))}  # type: ignore[arg-type]
    assert served == {"draft_model", "eagle3", "mtp", "ngram", "online", "suffix", "vllm_method"}
    assert not is_served(Paced)
    with pytest.raises(ConfigError, match=r"drafter=auto works .* engine\.name=vllm, or a drafter"):
        Pool().check(registry.build("drafter", "auto"))
    Pool().check(Ngram())
    Pool().check(None)


def test_an_experiment_is_refused_before_it_starts() -> None:
    words = ("engine=vllm_server", "strategy.drafter=das", "--dry-run")
    done = gfcr("run", "experiments/quickstart/grpo.yaml", *words)
    assert done.returncode == 2 and "use engine.name=vllm" in " ".join(done.stderr.split())
    with pytest.raises(ConfigError, match=r"engine\.deltas=true with engine\.dtype=auto"):
        Pool(deltas=True, dtype="auto")
    assert Pool(deltas=True, dtype="bfloat16").deltas and not Pool(dtype="auto").deltas


def test_a_server_is_told_how_to_draft_and_to_tell_of_any_number_of_tokens(tmp_path: Path) -> None:
    folder = ModelFolder(path=tmp_path, tensors=frozenset(), eos=(1,), max_positions=64, vocab=20)
    told = arguments(Pool(), folder=folder, max_length=64, seed=3, drafter=Ngram(draft_length=2))
    given = dict(pairwise(told))
    assert json.loads(given["--speculative-config"])["num_speculative_tokens"] == 2
    assert json.loads(given["--hf-overrides"]) == {"max_position_embeddings": 65}
    (tmp_path / "config.json").write_text(json.dumps({"text_config": SIZES}))
    save_file({"w": torch.ones(2)}, tmp_path / "model.safetensors")
    own = Pool().arguments(open_folder(str(tmp_path)), max_length=64, seed=3, drafter=None)
    assert own["hf_overrides"] == {"text_config": {"max_position_embeddings": 65}}
    plain = arguments(Pool(), folder=folder, max_length=32, seed=3, drafter=None)
    assert not {"--speculative-config", "--hf-overrides"} & {*plain}
    for config in (Vllm(), Pool()):  # a part may ask for more than vLLM's twenty
        own = config.arguments(folder, max_length=64, seed=0, drafter=None)
        assert own["max_logprobs"] == -1


def test_a_vllm_without_such_a_server_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm.entrypoints.rl.online.api_router", None)
    folder = ModelFolder(path=tmp_path, tensors=frozenset(), eos=(1,), max_positions=64, vocab=20)
    with pytest.raises(EngineError, match=r"need vLLM 0\.32, this is .*engine\.name=vllm"):
        arguments(Pool(), folder=folder, max_length=64, seed=3, drafter=None)


@over(
    ("seen", "device", "told"),
    [
        (None, None, [None, None]),
        (None, 2, ["2", "3"]),
        ("4,5,6,7", 2, ["6", "7"]),
        ("4,5,6,7", 3, ["7", ""]),
        ("GPU-a,GPU-b", 0, ["GPU-a", "GPU-b"]),
    ],
)
def test_each_server_has_the_next_gpu_of_those_that_the_run_may_use(
    seen: str | None,
    device: int | None,
    told: list[str | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if seen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    gate = {"gate": str(tmp_path / "gate"), "borrowed": 1, "dedicated": 1}
    for pool in (Pool(device=device), Rose(device=device, **gate)):
        given = [pool._process([], folder=tmp_path, number=n)._environment() for n in range(2)]
        assert [e.get("CUDA_VISIBLE_DEVICES") for e in given] == told
    assert [{GATE, REST} & e.keys() for e in given] == [{GATE, REST}, set()], "one is borrowed"
    lent = Rose(cores=["0", "1,2"], **gate)
    assert [lent._placed(number)[SERVERS] for number in range(2)] == ["0", "1,2"]


def test_a_server_has_one_name_and_one_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="names a server twice"):
        Pool(urls=["http://a:1", "http://a:1/"])
    with pytest.raises(ValueError, match="urls"):
        Pool(urls=[""])
    taken: list[bool] = []

    def runs(module: str, **how: object) -> None:
        """Tries to listen where the server is to, as others do and as vLLM does."""
        _, host, _, port = sys.argv[-4:]
        for reuses in (False, True):
            with socket.socket() as other, suppress(OSError):
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuses)
                other.bind((host, int(port)))
                other.listen()
                taken.append(reuses)

    monkeypatch.setattr(server_child, "follow", lambda parent: None)
    monkeypatch.setattr(server_child.runpy, "run_module", runs)
    monkeypatch.setattr(sys, "argv", ["child", str(tmp_path / "url")])
    monkeypatch.setenv(server_child.PARENT, "1")
    server_child.main()
    assert taken == [True], "nobody else gets it while the server loads"


def test_runs_that_are_given_one_place_for_weights_keep_apart_and_leave_nothing(
    tmp_path: Path,
) -> None:
    model, place, servers = tmp_path / "model", tmp_path / "place", [Served(), Served()]
    model.mkdir()
    (model / "config.json").write_text(json.dumps(SIZES))
    others = ("mtp.fc.weight", "model.layers.2.eh_proj.weight", "h.0.attn.bias")  # no trainer's
    save_file({n: torch.ones(2) for n in ("w", *others)}, model / "model.safetensors")
    save_file({"layers.0.wk.weight": torch.ones(2)}, model / "consolidated.safetensors")
    configs = [VllmServer(url=each.url, exchange=str(place)) for each in servers]
    engines = [config.start(model=str(model), seed=0) for config in configs]
    for number, engine in enumerate(engines):
        engine.update_weights([("model.w", torch.full((2,), float(number)))], version=1)
    assert len([*place.rglob("weights-1.safetensors")]) == 2
    assert [each.held["model.w"][0].item() for each in servers] == [0, 1]
    for each in (*engines, *servers):
        each.close()
    assert not [*place.iterdir()]
