"""The matrix is whole: every measured verdict and every known issue that concerns the client is played by a test."""

import re
from pathlib import Path

VERDICTS = {f"A{number}" for number in range(1, 33)}
# The rest of the program's issue list is about commands that the client never uses, or about its own build.
ISSUES = {
    *("#457", "PR 459", "PR 473", "#429", "PR 468", "#436", "#448", "#360", "PR 227", "PR 427", "#390", "#218", "#261"),
    *("PR 416", "#391", "#185", "#8924", "#1249"),
}
UNSEEN = {"G2", "G4", "GS"}


def test_every_row_is_played() -> None:
    named: set[str] = set()
    for path in Path(__file__).parent.glob("test_lying_cli_*.py"):
        for arguments in re.findall(r"^@lie\((.*)\)$", path.read_text(), re.MULTILINE):
            named.update(re.findall(r'"([^"]+)"', arguments))
    missing = (VERDICTS | UNSEEN | {f"§5 {issue}" for issue in ISSUES}) - named
    assert missing == set()


def test_no_test_of_the_matrix_is_without_a_row() -> None:
    for path in Path(__file__).parent.glob("test_lying_cli_*.py"):
        text = path.read_text()
        if path != Path(__file__):
            assert text.count("\nasync def test_") == text.count("\n@lie("), path.name
