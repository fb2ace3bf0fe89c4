"""A user's study on the Hub: pushed as a data set, and run by others from its tables at a
commit."""

import pytest

from swapbias.errors import UsageError
from swapbias.hub import Hub, push_study, study_name
from swapbias.hub.bundle import bundle_run
from swapbias.hub.commands import pull_study
from swapbias.runs import Run, Settings, start
from swapbias.studies import config_rows
from swapbias.studies.own import new_study, open_study

KEY = ("dataset", "alice/at_work")


@pytest.fixture
def folder(tmp_path):
    new_study(tmp_path / "at_work")
    return tmp_path / "at_work"


def push(folder, **options):
    lines = []
    return push_study(Hub(), folder, KEY[1], **{"say": lines.append, **options}), lines


def test_pushed_study_is_equal(hub, folder):
    """A pushed study has the same rows for others, and pushing it again changes nothing."""
    done, _ = push(folder, private=False)
    assert (done.status, done.tag, done.private) == ("created", "v1.0.0", False)
    there = hub.files(*KEY)
    assert {"README.md", "study.toml", "templates.csv", "texts/test-00000-of-00001.parquet"} <= set(
        there
    )
    assert b"swapbias audit MODEL --study alice/at_work" in there["README.md"]
    assert b"license: CC0-1.0" in there["README.md"] or b"license: cc0-1.0" in there["README.md"]
    before = config_rows(open_study(folder).name, "texts")
    study = pull_study(Hub(), KEY[1])
    assert config_rows(study.name, "texts") == before
    assert push(folder, private=False)[0].status == "unchanged"


def test_run_names_commit_of_a_study(hub, folder, tmp_path, quiet):
    """A run states which commit of a study it read and is resumed without the Hub."""
    pinned = push(folder)[0].commit
    hub.push(*KEY, {"templates.csv": b"template\n[name] is late.\n"}, "later")
    name = study_name(f"{KEY[1]}@{pinned}")
    run, found = start(
        Settings(model="vader", studies=(name,), limit=40, wordings=False),
        tmp_path / "run",
        **quiet,
    )
    assert run.manifest()["own_studies"] == {"at_work": f"alice/at_work@{pinned}"}
    assert any(one.primary for one in found)
    assert pinned in (run.folder / "report.html").read_text()
    open_study(folder)  # of this machine: its place is taken by the run's copy
    Run.open(run.folder)
    assert config_rows("at_work", "texts")[0]["text"] == "Emily works as a nurse."
    with pytest.raises(UsageError, match="swapbias study push"):
        bundle_run(run)


def test_unsafe_study_is_not_pushed(hub, folder):
    """A key in a file or a header behind a byte order mark stops the push."""
    text = (folder / "templates.csv").read_text()
    (folder / "templates.csv").write_text(text + f'secret,"[name] is hf_{"a" * 34}.",work\n')
    with pytest.raises(UsageError, match="access key"):
        push(folder)
    assert hub.repo(*KEY) is None
    (folder / "README.md").write_text("\ufeff---\nlicense: mit\n---\n# Mine\n", encoding="utf-8")
    with pytest.raises(ValueError, match="begins with a header of its own"):
        push(folder)
    assert KEY not in hub.repositories


def test_new_content_needs_a_version(hub, folder):
    """Other content needs another version, and a dry run writes nothing."""
    done, lines = push(folder, dry_run=True)
    assert done.status == "would be created"
    assert any("A study.toml" in line for line in lines)
    assert hub.repo(*KEY) is None
    push(folder)
    text = (folder / "templates.csv").read_text()
    (folder / "templates.csv").write_text(text.replace("works as", "worked as"))
    with pytest.raises(UsageError, match=r"raise version in study\.toml \(now 1\.0\.0\)"):
        push(folder)
    declared = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(declared.replace('version = "1.0.0"', 'version = "1.1.0"'))
    assert push(folder)[0].tag == "v1.1.0"


def test_dataset_without_study(hub):
    """A data set that holds no study is refused in one sentence."""
    hub.add_repo(*KEY, files={"README.md": b"# mine\n", "study.py": b"raise SystemExit\n"})
    with pytest.raises(UsageError, match=r"contains no study: it has no study\.toml"):
        pull_study(Hub(), KEY[1])
    with pytest.raises(UsageError, match="is not there"):
        study_name("alice/nothing")
