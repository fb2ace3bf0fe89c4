"""Exit codes are those of docs/files.md: wrong input of any kind is one or two sentences and
code 2."""

import pytest

from swapbias.errors import (
    HubError,
    MissingExtraError,
    ServiceError,
    StudyError,
    UsageError,
    exit_code,
)
from tests.hub.clients import command

FILES = {
    "one.csv": b"text,group\na,x\n",
    "empty.csv": b"",
    "latin.csv": "text,group,pair\ncaf\xe9,x,1\n".encode("latin-1"),
    "quote.csv": b'text,group,pair\n"a,b,1\n',
    "cut.parquet": b"PAR1",
    "cut.jsonl": b'{"text": ',
    "bad.toml": b"model = [",
    "bad.json": b"{",
    "unknown.toml": b'model = "vader"\nfoo = 1\n',
    "study/study.toml": b"name = 3\n",
    "model/config.json": b"{}",
    "run/manifest.json": b"{",
}
WRONG = [
    "audit vader --study nosuch", "audit vader --studdy x", "audit vader --limit x", "audit vader --limit 0",
    "audit vader --margin 5", "audit vader --seed -1", "audit vader --kind foo", "audit vader -M nosuch=1",
    "audit vader --device gpu", "audit vader --study gendered_stigma", "audit vader --prompts nothere.csv",
    "audit vader --prompts one.csv --reference x", "audit vader --prompts empty.csv",
    "audit vader --prompts latin.csv --reference x", "audit vader --prompts quote.csv --reference x",
    "audit vader --prompts cut.parquet", "audit vader --prompts cut.jsonl", "audit vader --prompts folder",
    "audit vader --study ./study", "audit vader --study ./folder", "audit ./nothere", "audit ./folder",
    "audit ./model", "audit bad.toml", "audit bad.json", "audit unknown.toml", "audit --resume nothere",
    "audit --resume run", "audit no_module:f", "plan vader --study nosuch", "plan --foo", "check", "check folder",
    "check run", "compare folder", "compare nothere other", "report nothere", "figures folder --format gif",
    "figures folder --style old", "figures folder other",
    "tables nothere --out t",
    "export foo x --out o", "export lm-eval nosuch --out o", "swap nothere.csv --out o", "swap empty.csv --out o",
    "swap latin.csv --out o", "swap quote.csv --out o", "swap cut.jsonl --out o", "swap cut.parquet --out o",
    "swap one.csv --column zz --out o", "swap one.csv --table nosuch --out o", "build nosuch --out b",
    "build clinical_notes --table paper --out b", "build clinical_notes --data one.csv --table nosuch --out b",
    "reproduce nosuch", "study new folder/../study", "study check nothere", "study test nothere",
    "study push folder a/b --dry-run", "study push study a/b --dry-run", "push foo --namespace x",
    "pull foo x --out y", "share folder --results a/b",
    "foo", "study foo",
]  # fmt: skip


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_input(files, arguments, capsys):
    """Wrong input exits with code 2 and no traceback."""
    assert command(*arguments.split()) == 2
    stderr = capsys.readouterr().err
    assert "swapbias: " in stderr
    assert "Traceback" not in stderr
    assert "bug in swapbias" not in stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (StudyError("x"), 2),
        (ValueError("x"), 2),
        (MissingExtraError("x"), 2),
        (HubError("x"), 1),
        (ServiceError("x"), 1),
        (OSError("x"), 1),
        (KeyError("x"), 1),
    ],
    ids=["usage", "study", "value", "extra", "Hub", "service", "system", "bug"],
)
def test_exit_code_of_an_error(error, code):
    """An error of the user has the exit code 2, and any other has 1."""
    assert exit_code(error) == code
