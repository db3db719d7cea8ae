"""What an update's row of metrics holds of the trainer's figures."""

from gfcr.experiment.source import _step_metrics
from gfcr.types import Cost


def test_a_correction_s_figures_keep_their_name_and_count_as_no_seconds() -> None:
    told = {"loss": 1.0, "train_s": 2.0, "correction/kept_s": 9.0}
    found = _step_metrics(told, cost=Cost(wall_s=1.0))
    assert (found["train/loss"], found["correction/kept_s"]) == (1.0, 9.0)
    assert found["time/step_s"] == found["time/train_s"] + 1.0 == 3.0
    assert "train/correction/kept_s" not in found
