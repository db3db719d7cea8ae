"""PCL: the model's gradient, that it learns, and which candidates it takes."""

from typing import Any

import numpy as np
import pytest

from gfcr.control.pcl import Pcl
from gfcr.errors import ConfigError
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from tests import chosen
from tests.cases import over


def _loss(part: Pcl, text: str, rate: float) -> float:
    p = part.predict(text)
    own = -rate * np.log(p) - (1 - rate) * np.log(1 - p)
    return float(own + part.decay / 2 * (part.weights**2).sum())


def test_the_gradient_is_that_of_the_cross_entropy() -> None:
    part = Pcl(buckets=12, decay=0.1)
    part.weights = np.random.default_rng(0).normal(size=14)
    slope = part.gradient("12+3=", 0.3)
    for i in range(14):
        step = np.zeros(14)
        step[i] = 1e-6
        weights, losses = part.weights, list[float]()
        for moved in (weights + step, weights - step):
            part.weights = moved
            losses.append(_loss(part, "12+3=", 0.3))
        part.weights = weights
        assert slope[i] == pytest.approx((losses[0] - losses[1]) / 2e-6, abs=1e-6)


def test_features_are_of_unit_length_and_tell_texts_apart() -> None:
    part = Pcl()
    one, other = part.features("1+2="), part.features("2+1=")
    assert np.linalg.norm(one[:-2]) == pytest.approx(1) and one[-1] == 1
    assert not np.allclose(one, other) and np.array_equal(one, Pcl().features("1+2="))
    assert np.isfinite(part.features("")).all()


def test_before_it_has_learned_it_expects_one_half_and_takes_the_stream_s_order() -> None:
    view = make.view()
    assert Pcl().predict("1+2=") == 0.5
    taken = Pcl().select(4, view=view)
    assert [p.id for p in taken] == [p.id for p in make.view().draw(4)]


def _teach(part: Pcl, *, batches: int) -> None:
    rng = np.random.default_rng(0)
    prompts = make.view(task=make.CoinTask(num_train=100)).draw(100)
    for _ in range(batches):
        groups = [
            make.group([float(rng.random() < float(str(p.meta["rate"]))) for _ in range(8)], of=p)
            for p in (prompts[int(i)] for i in rng.permutation(100)[:20])
        ]
        part.observe(Harvest(step=0, groups=tuple(groups), aborted=()), view=make.view())


def test_it_learns_success_rates_from_the_text() -> None:
    part = Pcl()
    _teach(part, batches=20)
    unseen = make.CoinTask(num_train=160).problems(make.CODEC).train[100:]
    gaps = [abs(part.predict(p.text) - float(str(p.meta["rate"]))) for p in unseen]
    assert np.mean(gaps) < 0.15, "chance is 0.3"
    assert part.metrics()["error"] < 0.25


def test_unscorable_groups_teach_nothing() -> None:
    part = Pcl()
    group = make.group([None, None])
    part.observe(Harvest(step=0, groups=(group,), aborted=()), view=make.view())
    assert not part.weights.any() and not part.metrics()


def test_put_back_prompts_are_neither_lost_nor_doubled() -> None:
    view, part = make.view(task=make.CoinTask(num_train=24)), Pcl(passed_over="put_back")
    _teach(part, batches=3)
    taken = [p.id for _ in range(6) for p in part.select(4, view=view)]
    waiting = [p.id for p in view.stream._returned]
    assert len(taken) == 24 and len({*taken, *waiting}) == 24
    assert len({*waiting}) == len(waiting) == 12, "each once, however often the stream had it"


def test_chosen_prompts_are_nearer_to_one_half_than_the_stream_s() -> None:
    task = make.CoinTask(rates=(0.0, 0.05, 0.5, 0.95, 1.0), num_train=200)
    plain = chosen.distance(chosen.run("grpo", updates=6, task=task)[1])
    assert chosen.distance(chosen.run("pcl", updates=16, task=task)[1][6:]) < 0.7 * plain


def test_resume_goes_on_with_the_same_choices() -> None:
    assert chosen.same_after_resume("pcl", before=3, after=2)


@over("bad", [{"buckets": 0}, {"gram": 0}, {"rate": 0.0}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"Pcl.{next(iter(bad))}="):
        Pcl(**bad)
