"""MLflow's own page shows a study's runs nested: study, arms, seeds. Half a minute."""

from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from gfcr import cli
from gfcr.tracking.mlflow_client import open_client
from tests import stores
from tests.integration.mlflow_server import Server

ROOT = Path(__file__).parents[2]
NAMES = ".ag-cell[col-id*='Run Name']"
SMALL = (
    *("model=none", "engine=fake", "trainer=dry", "trainer.max_steps=1", "prompts=4"),
    *("evaluation.prompts=4", "study=nested"),
)
ARMS = ["dr_grpo", "grpo"]


@pytest.mark.whole
def test_runs_are_nested_in_mlflows_own_page(
    browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = Server(tmp_path)
    base = str(ROOT / "experiments" / "quickstart" / "base.yaml")
    uri = stores.sqlite(tmp_path, "server.db")
    for arm in ARMS:
        for seed in (0, 1):
            given = (f"strategy={arm}", f"seed={seed}", f"tracking.uri={uri}")
            assert cli.main(["run", base, *SMALL, *given]) == 0
    (experiment,) = open_client(uri).search_experiments(filter_string="name = 'nested'")
    server.start()
    try:
        browser.get(f"{server.uri}/#/experiments/{experiment.experiment_id}/runs")
        wait = WebDriverWait(browser, 60)
        wait.until(lambda page: run_names(page) == ["nested"])
        unfold(browser, names={"nested"})
        wait.until(lambda page: sorted(run_names(page)) == [*ARMS, "nested"])
        unfold(browser, names={*ARMS})
        wait.until(lambda page: len(run_names(page)) == 1 + len(ARMS) * (1 + 2))
    finally:
        server.kill()


def run_names(page) -> list[str]:
    return [cell.text for cell in page.find_elements(By.CSS_SELECTOR, f"{NAMES} a")]


def unfold(page, *, names: set[str]) -> None:
    """Clicks the plus before these runs."""
    for cell in page.find_elements(By.CSS_SELECTOR, NAMES):
        if cell.find_element(By.TAG_NAME, "a").text in names:
            cell.find_element(By.TAG_NAME, "button").click()
