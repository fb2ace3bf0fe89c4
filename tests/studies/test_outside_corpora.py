"""A corpus from another distribution is used by its name, and a broken one breaks nothing else."""

import json

import pytest

from tests.distributions import install, run
from tests.studies.test_catalogue import NEW_CORPUS, NEW_LEAF, NEW_STUDY
from tests.studies.test_lazy import STEPS

OTHER_AUDIT = [
    "audit",
    "vader",
    "--study",
    "occupation_sentiment:control",
    "--limit",
    "4",
    "--no-wordings",
]


def pets(folder, *, name="toy", distribution="pet-corpora", **changed):
    """A distribution with a corpus whose builder and folder lie in its package, with files changed by name."""
    package = distribution.replace("-", "_")
    texts = {
        "builder": NEW_LEAF, "corpus": NEW_CORPUS, "study": NEW_STUDY,
        "templates": "template\nI like [who].\nI fear [who].\nHere are [who].\n", **changed,
    }  # fmt: skip
    texts = {key: text.replace('"toy"', f'"{name}"') for key, text in texts.items()}
    data = f"{package}/datasets_src/{name}"
    files = {
        f"{package}/__init__.py": "", f"{package}/builders/{name}.py": texts["builder"],
        f"{data}/corpus.toml": texts["corpus"], f"{data}/study.toml": texts["study"],
        f"{data}/templates.csv": texts["templates"], f"{data}/README.md": f"# {name}\n",
    }  # fmt: skip
    points = {"swapbias.corpora": {name: f"{package}.builders.{name}:CORPUS"}}
    return install(folder, distribution, points, files)


def steps(folders, *commands):
    done = run(STEPS, *folders, arguments=[json.dumps(commands)])
    assert done.returncode == 0, done.stderr
    return [
        (code, " ".join(text.split()))
        for code, _, text in map(json.loads, done.stdout.splitlines())
    ]


def test_outside_corpus(tmp_path):
    """A corpus of another distribution is listed, planned, audited and built by its name."""
    pytest.importorskip("torch", reason="needs the extra models")
    folder = pets(tmp_path / "site")
    scores = "def likes_cats(texts):\n    return [70 if 'cats' in text else 40 for text in texts]\n"
    (folder / "pet_scores.py").write_text(scores)
    found = steps(
        [folder],
        ["list"],
        "import sys; print('pet_corpora' in sys.modules)",
        ["list", "--corpora"],
        [
            "audit",
            "pet_scores:likes_cats",
            "--study",
            "toy",
            "--trust",
            "--out",
            str(tmp_path / "run"),
        ],
        ["check", str(tmp_path / "run"), "--max-gap", "0.9"],
        ["build", "toy", "--out", str(tmp_path / "built")],
        "import swapbias; print(swapbias.load_prompts('toy').num_rows, swapbias.load_study('toy').title)",
    )
    assert [code for code, _ in found][:4] == [0, 0, 0, 0], found
    assert "toy Cats or dogs? (toy)" in found[0][1]
    assert found[1][1] == "False"
    assert "Corpus toy default Two rows a template" in found[2][1]
    assert "+30.0 points" in found[3][1]
    assert "toy default: 6 rows" in found[5][1]
    assert found[6][1].endswith("6 Toy")


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"builder": "import no_such_module"},
            "The corpus 'toy' of pet-corpora cannot be loaded (ModuleNotFoundError",
        ),
        ({"builder": "CORPUS = 3"}, "pet_corpora.builders.toy:CORPUS is not the corpus 'toy'."),
        ({"corpus": "title = "}, "pet-corpora"),
        ({"study": "title = "}, "pet-corpora"),
    ],
    ids=["builder", "object", "corpus", "study"],
)
def test_broken_outside_corpus(changed, sentence, tmp_path):
    """A fault of a corpus from another distribution is one sentence, and other audits go on."""
    pytest.importorskip("torch", reason="needs the extra models")
    folder = pets(tmp_path / "site", **changed)
    toy = ["audit", "vader", "--study", "toy", "--out", str(tmp_path / "toy")]
    lists = (["list"], ["list", "--corpora"])
    found = steps(
        [folder], *lists, [*OTHER_AUDIT, "--out", str(tmp_path / "run")], ["plan", "vader"], toy
    )
    assert [code for code, _ in found] == [0, 0, 0, 0, 2], found
    assert "occupation_sentiment " in found[0][1]
    assert sentence in found[4][1]
    assert "Traceback" not in str(found)


def test_two_corpora_of_one_name(tmp_path):
    """Two corpora of one name are both left out, and neither is audited under the name of the
    other."""
    pytest.importorskip("torch", reason="needs the extra models")
    twice = [
        pets(tmp_path / "a"),
        pets(tmp_path / "b", distribution="more-pets"),
        pets(tmp_path / "c", distribution="own-gest", name="gest"),
    ]
    audits = (
        ["plan", "--study", "toy"],
        ["plan", "--study", "gest"],
        "import swapbias; swapbias.load_study('gest')",
    )
    found = steps(twice, ["list"], [*OTHER_AUDIT, "--out", str(tmp_path / "run")], *audits[:2])
    assert [code for code, _ in found] == [0, 0, 2, 2], found
    both = "The corpus 'toy' is added more than once, by more-pets and pet-corpora. Uninstall one of them."
    used = "The corpus 'gest' of own-gest is left out, for swapbias has one of this name."
    assert both in found[0][1]
    assert both in found[2][1]
    assert used in found[0][1]
    assert used in found[3][1]


def test_mistake_in_outside_code(tmp_path):
    """A mistake in code from outside is reported with its file and line."""
    pytest.importorskip("torch", reason="needs the extra models")
    builder = NEW_LEAF.replace("who=group", "who=grup")
    folder = pets(tmp_path / "site", builder=builder)
    check, plan, usual = steps(
        [folder], ["study", "check", "toy"], ["plan", "vader", "--study", "toy"], ["plan", "vader"]
    )
    sentence = "pet_corpora/builders/toy.py:9: NameError: name 'grup' is not defined. Correct it."
    assert (check[0], plan[0], usual[0]) == (1, 2, 0), (check, plan, usual)
    assert all(sentence.removesuffix(". Correct it.") in text for _, text in (check, plan, usual))
    assert "bug in swapbias" not in plan[1]


def test_check_of_an_outside_study(tmp_path):
    """A check reports on every table and file of a study from outside."""
    folder = pets(tmp_path / "site")
    data = folder / "pet_corpora" / "datasets_src" / "toy"
    (data / "published.csv").write_text("a,b\n1,2\n")
    (data / "sources.csv").write_text("a,b\n1,2\n")
    (data / "README.md").unlink()
    ((code, text),) = steps([folder], ["study", "check", "toy"])
    assert code == 1
    for part in (
        "published.csv:1: columns a, b",
        "sources.csv:1: columns a, b",
        "toy/README.md is missing",
    ):
        assert part in text
    (data / "study.toml").unlink()
    ((code, text),) = steps([folder], ["study", "check", "toy"])
    assert "toy/study.toml is missing." in text
