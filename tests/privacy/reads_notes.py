"""Every door by which credentialed notes enter, called one after the other in a home of its own.

``python -m tests.privacy.reads_notes FOLDER`` prints by call where a planted word lies afterwards: below HF_HOME, or
where others of this machine can read it. Run apart: libraries read HF_HOME and TMPDIR when they are imported.
"""

import gzip
import json
import os
import stat
import sys
from pathlib import Path

CANARY = "zqcanaryzq"
CALLS = {}


def call(function):
    CALLS[function.__name__] = function
    return function


def classify(texts):
    """A classifier of the user's own."""
    return [0.2 + (len(text) % 7) / 10 for text in texts]


class Home:
    """Notes of MIMIC and of a user's own, all with the planted word, and the folders that libraries write to."""

    def __init__(self, root):
        from tests.notes.mimic import write_mimic3, write_mimic4

        self.root = root
        self.mimic3 = root / "in" / "mimic3"
        self.mimic4 = root / "in" / "mimic4"
        self.own = root / "in" / "own.csv"
        write_mimic3(self.mimic3, notes=120)
        write_mimic4(self.mimic4, notes=120)
        for table in (self.mimic3 / "NOTEEVENTS.csv", self.mimic4 / "note" / "discharge.csv"):
            table.write_text(table.read_text().replace("Lungs clear", f"Lungs {CANARY}"))
        rows = [
            f'"{"She" if n % 2 else "He"} met {CANARY} {n}.",{n // 2 % 2},{"MF"[n % 2]},{n}'
            for n in range(40)
        ]
        self.own.write_text("\n".join(["text,label,gender,hadm_id", *rows]))
        self.reviews = root / "in" / "reviews"
        self.reviews.mkdir()
        (self.reviews / "CREDENTIALED").write_text("")
        for name in ("train", "dev"):
            lines = [f"{n % 2} {'good' if n % 2 else 'bad'} {CANARY} {n}" for n in range(20)]
            (self.reviews / f"stsa.binary.{name}").write_text("\n".join(lines))

    def out(self, name):
        folder = self.root / "out"
        folder.mkdir(exist_ok=True)
        return folder / name


def see_what_is_planted(home):
    """The walk itself finds the word below HF_HOME, in a table too."""
    import pandas as pd

    hub = Path(os.environ["HF_HOME"])
    hub.mkdir()
    planted = [hub / "a.txt", hub / "b.parquet", hub / "c.gz"]
    planted[0].write_text(CANARY)
    pd.DataFrame({"text": [CANARY] * 100}).to_parquet(planted[1], compression="gzip")
    planted[2].write_bytes(gzip.compress(CANARY.encode()))
    assert sorted(places(home)["hub"]) == ["a.txt", "b.parquet", "c.gz"]
    assert len(places(home)["open"]) == 3
    for file in planted:
        file.unlink()


@call
def load_all_notes(home):
    import swapbias

    for folder in (str(home.mimic3), home.mimic4):
        rows = swapbias.load_prompts("clinical_notes", data=folder)
        assert any(CANARY in text for text in rows["text"])


@call
def map_filter_and_sort_all_notes(home):
    import swapbias

    rows = swapbias.load_prompts("clinical_notes", data=home.mimic3)
    longer = rows.map(lambda row: {"text": f"{row['text']}!"}, batch_size=10).filter(
        lambda row: bool(row["text"])
    )
    parts = longer.sort("note_id").shuffle(seed=0).train_test_split(0.5)
    assert any(CANARY in text for text in parts["train"]["text"])


@call
def map_pairs(home):
    import swapbias

    for folder in (home.mimic3, home.mimic4, str(home.own)):
        rows = swapbias.load_prompts("clinical_notes", "pairs", data=folder)
        longer = rows.map(lambda row: {"text": f"{row['text']}!"}).filter(
            lambda row: bool(row["text"])
        )
        assert any(CANARY in text for text in longer.shuffle(seed=0)["text"])


@call
def build_with_datasets(home):
    from swapbias.builders.clinical_notes import Builder

    for folder in (home.mimic3, home.mimic4, str(home.own)):
        for config in (None, "pairs"):
            builder = Builder(config, data_dir=folder)
            builder.download_and_prepare()
            for rows in builder.as_dataset().values():
                longer = rows.map(lambda row: {"text": f"{row['text']}!"})
            assert any(CANARY in text for text in longer["text"])
            streamed = builder.as_streaming_dataset()
            assert any(CANARY in row["text"] for rows in streamed.values() for row in rows)


@call
def build_in_a_cache_of_the_user(home):
    import swapbias

    cache = home.out("cache-of-the-user")
    builder = swapbias.dataset_builder("clinical_notes", data_dir=home.mimic3, cache_dir=cache)
    builder.download_and_prepare()
    assert [*cache.glob("notes/*/CREDENTIALED")]


@call
def score_rows(home):
    import swapbias

    scorer = swapbias.load_scorer(classify, name="toy")
    for folder in (home.mimic3, str(home.own)):
        rows = swapbias.load_prompts("clinical_notes", "pairs", data=folder)
        assert len(swapbias.score_prompts(rows, scorer)["score"])


@call
def read_notes(home):
    from swapbias.models.clinical import NoteOptions
    from swapbias.notes import load_notes, local_notes, stream_notes

    assert len([*stream_notes(home.mimic3), *stream_notes(str(home.mimic4))])
    assert len([*local_notes(home.mimic3), *local_notes(str(home.mimic4)), *local_notes(home.own)])
    notes = load_notes(NoteOptions(data=str(home.mimic3)), 0)
    assert notes.rows
    assert [*notes.pairs()]


@call
def build_corpora(home):
    from swapbias.hub.datasets import build
    from swapbias.studies.catalogue import local_corpus

    for name, folder in (("mimic3", home.mimic3), ("mimic4", str(home.mimic4)), ("own", home.own)):
        assert [*build(local_corpus("clinical_notes", folder), home.out(f"built-{name}"))]


@call
def read_a_built_corpus_as_its_card_says(home):
    import datasets

    card = (home.out("built-mimic3") / "clinical_notes" / "README.md").read_text()
    assert "streaming=True" in card
    rows = datasets.load_dataset(
        str(home.out("built-mimic3") / "clinical_notes"), "mimic3", streaming=True
    )
    assert any(CANARY in row["text"] for row in rows["train"])


@call
def audit_in_python(home):
    import swapbias

    for folder in (None, home.out("run")):
        options = {
            "data": home.own,
            "classifier": "tests.privacy.reads_notes:classify",
            "explain": 0,
        }
        run = swapbias.audit(None, "phenotype_fairness", out=folder, progress=False, **options)
        assert len(run.findings)
        run.report()


@call
def swap_notes(home):
    from swapbias.swapping import Job, swap_files

    for mode in ("swap", "pairs", "augment"):
        swap_files(Job(str(home.own), mode=mode), home.out(f"swapped-{mode}"))
    swap_files(
        Job(str(home.mimic3 / "NOTEEVENTS.csv"), column="TEXT"),
        home.out("swapped-mimic"),
        processes=2,
    )
    card = (home.out("swapped-mimic") / "README.md").read_text()
    assert "streaming=True" in card


@call
def train_on_credentialed_sentences(home):
    from swapbias.models import TrainSettings, train_model
    from tests.conftest import QUIET

    train_model(TrainSettings(kind="bow", data=home.reviews), home.out("bow"), bar=QUIET["bar"])


@call
def compute_measures(home):
    import evaluate

    import swapbias

    gap = evaluate.load(swapbias.metric_path("paired_gap"))
    ids = [f"{CANARY} {number // 2}" for number in range(8)]
    columns = {"predictions": [0.1, 0.2] * 4, "groups": ["F", "M"] * 4, "pair_ids": ids}
    assert gap.compute(**columns, reference_group="M")
    leakage = evaluate.load(swapbias.metric_path("leakage_uar"))
    leakage.add_batch(predictions=[CANARY, "M"], references=["F", "M"])
    try:
        gap.compute(**columns, reference_group="nobody")
    except ValueError:
        pass
    else:
        raise AssertionError


def program(*arguments):
    from swapbias.cli import main

    sys.argv = ["swapbias", *map(str, arguments)]
    try:
        main()
    except SystemExit as ended:
        return ended.code
    return None


@call
def commands(home):
    notes = home.own
    out = home.out
    classifier = "classifier=tests.privacy.reads_notes:classify"
    study = ("--study", "phenotype_fairness")
    run = out("command-run")
    audit = (
        "audit",
        *study,
        "-M",
        f"data={notes}",
        "-M",
        classifier,
        "-M",
        "explain=0",
        "--out",
        run,
    )
    assert program(*audit) == 0
    assert program("report", run) == 0
    assert program("figures", run, "--out", out("figures")) == 0
    assert program("check", run, "--max-gap", "1", "--junit", out("junit.xml")) == 0
    assert program("compare", run, out("run"), "--out", out("compared")) == 0
    assert program("plan", *study, "-M", f"data={notes}", "-M", classifier) == 0
    assert (
        program("build", "clinical_notes", "--data", home.mimic3, "--out", out("command-built"))
        == 0
    )
    assert program("swap", notes, "--out", out("command-swapped")) == 0
    assert program("train", "bow", "--data", home.reviews, "--out", out("command-bow")) == 0


# --- what lies where ----------------------------------------------------------------------------------------


def holds_canary(file):
    """Tell whether the planted word is in a file, in a table or in what is packed with gzip."""
    content = file.read_bytes()
    if CANARY.encode() in content or CANARY in file.name:
        return True
    if content[:2] == b"\x1f\x8b":
        return CANARY.encode() in gzip.decompress(content)
    if content[:4] == b"PAR1":
        import pyarrow.parquet as pq

        return CANARY in str(pq.read_table(file).to_pylist())
    return False


def is_open(file, root):
    """Tell whether others can read a file: it and every folder from the root on lets them."""
    ways = [file, *(folder for folder in file.parents if root in folder.parents)]
    return all(stat.S_IMODE(path.stat().st_mode) & 0o055 for path in ways)


def places(home):
    """Where the planted word lies beside the notes themselves: below HF_HOME, and open to others."""
    files = [
        path
        for path in home.root.rglob("*")
        if path.is_file() and home.root / "in" not in path.parents
    ]
    leaks = [path for path in files if holds_canary(path)]
    hub = Path(os.environ["HF_HOME"])
    return {
        "hub": [str(path.relative_to(hub)) for path in leaks if hub in path.parents],
        "open": [str(path.relative_to(home.root)) for path in leaks if is_open(path, home.root)],
        "held": len(leaks),
    }


def main():
    os.umask(0)  # hides nothing of what the code leaves open
    home = Home(Path(sys.argv[1]))
    see_what_is_planted(home)
    lies = {}
    for name, function in CALLS.items():
        function(home)
        lies[name] = places(home)
    sys.stdout.write(json.dumps(lies))


if __name__ == "__main__":
    main()
