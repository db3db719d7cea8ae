"""What `gfcr simulate` refuses."""

from tests.commands import gfcr


def test_bad_input_says_what_is_allowed() -> None:
    for arguments, words in (
        (["--draft", "fast"], "unknown draft 'fast'"),
        (["--lag", "-1"], "--lag"),
        (["--acceptance", "much"], "0.85,0.72,0.58"),
        (["--acceptance", "0.5,0.4", "--draft", "3"], "0 to 2 tokens"),
        (["--from", "nowhere"], "nowhere"),
        (["--from", "nowhere", "--median", "3"], "--median"),
        (["--plot", "/no/such/folder/arms.png", "--draft", "0", "--requests", "4"], "--plot"),
    ):
        done = gfcr("simulate", *arguments)
        assert done.returncode == 2 and words in done.stderr
