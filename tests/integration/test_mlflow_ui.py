"""What MLflow's own pages show of a study, in a browser. A minute."""

from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from gfcr.tracking.mlflow_client import open_client
from tests.commands import gfcr
from tests.integration.mlflow_server import Server
from tests.integration.mlflow_studies import ARMS, study_file

NAMES = ".ag-cell[col-id*='Run Name']"
PATIENCE_S = 120


@pytest.mark.whole
def test_a_study_in_mlflows_own_pages(browser, tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.start()
    browser.set_window_size(1900, 1000)
    try:
        swept = gfcr("sweep", study_file(tmp_path, uri=server.uri), cwd=tmp_path)
        assert swept.returncode == 0, swept.stderr
        (page,) = [line.split()[1] for line in swept.stdout.splitlines() if "MLflow: " in line]
        client = open_client(server.uri)
        (experiment,) = client.search_experiments(filter_string="name = 'nested'")
        runs = {r.info.run_name: r for r in client.search_runs([experiment.experiment_id])}
        wait = WebDriverWait(browser, PATIENCE_S)

        browser.get(page)  # training runs, nested, with their datasets
        wait.until(lambda page: run_names(page) == ["nested"])
        unfold(browser, names={"nested"})
        wait.until(lambda page: sorted(run_names(page)) == [*ARMS, "nested"])
        unfold(browser, names={*ARMS})
        seeds = [f"{arm} / seed {seed}" for arm in ARMS for seed in (0, 1)]
        wait.until(lambda page: sorted(run_names(page)) == sorted([*ARMS, *seeds, "nested"]))
        told = text_of(browser)
        assert "chain_sum (" in told and "Model training" in told

        run = f"{server.uri}/#/experiments/{experiment.experiment_id}/runs/"
        browser.get(f"{run}{runs['grpo'].info.run_id}/model-metrics")  # an arm's curve
        points = ".scatterlayer .trace .point"
        wait.until(lambda page: len(page.find_elements(By.CSS_SELECTOR, points)) >= 5)
        wait.until(lambda page: "grpo (heldout/accuracy)" in text_of(page))
    finally:
        server.kill()


def text_of(page) -> str:
    return page.find_element(By.TAG_NAME, "body").text


def run_names(page) -> list[str]:
    return [cell.text for cell in page.find_elements(By.CSS_SELECTOR, f"{NAMES} a")]


def unfold(page, *, names: set[str]) -> None:
    """Clicks the plus before these runs."""
    for cell in page.find_elements(By.CSS_SELECTOR, NAMES):
        if cell.find_element(By.TAG_NAME, "a").text in names:
            cell.find_element(By.TAG_NAME, "button").click()
