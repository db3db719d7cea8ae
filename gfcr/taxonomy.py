"""The survey's tree (arXiv 2605.02913, Table 1): what a rollout pipeline does, cell by cell."""

from typing import Final, NamedTuple


class Cell(NamedTuple):
    """One cell of the tree."""

    branch: str
    title: str
    gloss: str


CELLS: Final = {
    "G4.2": Cell("Generate", "Topology and interaction", "structure of the rollout"),
    "G4.3": Cell("Generate", "Guidance and scaffolding", "prompt structure, rubrics, traces"),
    "G4.4": Cell("Generate", "Sampling and exploration", "decoding diversity"),
    "F5.2": Cell("Filter", "Structural validity", "schema, executability, gates"),
    "F5.3": Cell("Filter", "Correctness verification", "outcomes checked by tests or solvers"),
    "F5.4": Cell("Filter", "Process quality", "step-level signals"),
    "F5.5": Cell("Filter", "Comparative assessment", "ranking, judging, calibration"),
    "F5.6": Cell("Filter", "Learning-value signals", "novelty, uncertainty, variance"),
    "F5.7": Cell("Filter", "Training-signal construction", "scores to labels, advantages, pairs"),
    "C6.2": Cell("Control", "Prompt and task selection", "curricula, prioritisation"),
    "C6.3": Cell("Control", "Budgeting and scheduling", "adaptive compute allocation"),
    "C6.4": Cell("Control", "Rollout configuration", "length, temperature, constraints"),
    "C6.5": Cell("Control", "Continuation and stop rules", "early stopping, continuation"),
    "C6.6": Cell("Control", "Branch and prune", "branching policies, pruning"),
    "C6.7": Cell("Control", "On- and off-policy controls", "mixing, corrections"),
    "C6.8": Cell("Control", "Systems", "throughput: speculation, scheduling"),
    "R7.2": Cell("Replay", "Resampling and retention", "buffers, caches, reuse"),
    "R7.3": Cell("Replay", "Recomposition", "verified segments make new trajectories"),
    "R7.4": Cell("Replay", "Self-evolution", "new tasks made by the system itself"),
}
"""Letter of the branch and section of the paper -> the cell."""

CELL_OF: Final = {
    **{"correction": "C6.7", "drafter": "C6.8", "judge": "F5.5", "verifier": "F5.3"},
    **{"environment": "G4.2", "tool": "G4.3"},
}
"""Kinds whose parts lie in one cell, unless they say another."""

ORIGINS: Final = {
    "P": "the paper's text or its authors' code",
    "S": "notes of others on the paper",
    "ours": "our own choice",
}
"""Where the defaults of a part come from."""

PLACED: Final = (
    *("generate", "filter", "control", "replay", "correction", "drafter", "judge", "verifier"),
    *("environment", "tool"),
)
"""Kinds whose parts have a cell."""
