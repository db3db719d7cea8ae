"""What the seam does with a batch, through the real trainers on a tiny model (about 30 s)."""

from tests.integration.trl_script import (
    Scripted,
    groups,
    plain_sgd,
    run,
    samples_of,
    tiny_policy,
)


def test_order_of_calls(tmp_path):
    source = Scripted(make=lambda n: samples_of(groups(n)))
    result = run(plain_sgd(), source, model=tiny_policy(tmp_path / "m"), folder=tmp_path / "run")
    assert source.diary == [
        "sync 0", "batch 0", "updated 1", "sync 1", "batch 1", "updated 2", "state", "sync 2",
    ]  # fmt: skip
    assert (result.updates, result.resumed_from) == (2, 0)
    print(source.metrics)
