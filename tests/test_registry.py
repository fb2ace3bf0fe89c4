"""Entry points of other distributions add names; one that does not load or is repeated is a
warning."""

import pytest

from tests.distributions import install, run, swapbias
from tests.studies.test_catalogue import NEW_STUDY
from tests.studies.test_outside_corpora import pets

KIND = """
from swapbias.models import Kind, Reading, Scored, Scorer

class Sound(Scorer):
    model_id, kind, unit, identity = "sound", "sound", "probability of positive sentiment", {}
    def score(self, prompts, on_progress=None):
        return [Scored(0.5) for _ in prompts]

class SoundKind(Kind):
    name = "sound"
    title = "Models that listen"
    readings = {"": Reading({"score": "probability of positive sentiment"})}
    def load(self, model, request, **more):
        return Sound()

SOUND = SoundKind()
"""
AUDIT = (
    "audit",
    "vader",
    "--study",
    "occupation_sentiment:control",
    "--limit",
    "4",
    "--no-wordings",
)


def test_kind_of_another_distribution(tmp_path):
    """A kind of model from another distribution is listed under its title."""
    install(tmp_path, "sounds", {"swapbias.kinds": {"sound": "sounds:SOUND"}}, {"sounds.py": KIND})
    code = "from swapbias.models import kind_of, kinds; print(kind_of('sound') is kinds()[-1])"
    done = run(code, tmp_path)
    assert done.stdout == "True\n", done.stderr
    done = swapbias("list", folders=[tmp_path])
    assert "\nModels that listen\n" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("group", "place", "sentence"),
    [
        (
            "kinds",
            "lost:SOUND",
            "The kind 'sound' of lost-and-found cannot be loaded (ModuleNotFoundError",
        ),
        ("kinds", "found:NONE", "(AttributeError: module 'found' has no attribute 'NONE')"),
        ("kinds", "found:TEXT", "(TypeError: it is no swapbias.models.Kind)"),
        (
            "kinds",
            "broken:SOUND",
            "(ZeroDivisionError: division by zero). Fix or uninstall lost-and-found.",
        ),
        (
            "measures",
            "lost:SOUND",
            "The measure 'sound' of lost-and-found cannot be loaded (ModuleNotFoundError",
        ),
    ],
    ids=[
        "missing module",
        "missing attribute",
        "no kind",
        "failing module",
        "missing module of a measure",
    ],
)
def test_entry_point_that_does_not_load(group, place, sentence, tmp_path):
    """An entry point that does not load is named in a warning and breaks nothing else."""
    files = {"found.py": "TEXT = 'no kind'\n", "broken.py": "1 / 0\n"}
    install(tmp_path, "lost-and-found", {f"swapbias.{group}": {"sound": place}}, files)
    done = swapbias("list", folders=[tmp_path])
    assert done.returncode == 0
    assert "\n  occupation_sentiment " in done.stdout
    assert sentence in " ".join(done.stderr.split())
    assert len(done.stderr.strip().splitlines()) == 1
    done = swapbias(*AUDIT, "--out", tmp_path / "run", folders=[tmp_path])
    assert done.returncode == 0, done.stderr
    if group == "measures":
        return
    code = "from swapbias.models import kind_of; kind_of('sound')"
    assert (
        "UsageError: The kind 'sound' of lost-and-found cannot be loaded"
        in run(code, tmp_path).stderr
    )


def test_name_of_two_distributions(tmp_path):
    """A name that two distributions register belongs to neither and is refused."""
    for name in ("sounds", "noises"):
        point = {"swapbias.kinds": {"sound": f"{name}:SOUND"}}
        install(tmp_path / name, name, point, {f"{name}.py": KIND})
    folders = [tmp_path / "sounds", tmp_path / "noises"]
    done = swapbias("list", folders=folders)
    assert done.returncode == 0
    assert "Models that listen" not in done.stdout
    sentence = (
        "The kind 'sound' is added more than once, by noises and sounds. Uninstall one of them."
    )
    assert sentence in done.stderr
    code = "from swapbias.models import kind_of; kind_of('sound')"
    assert sentence in run(code, *folders).stderr


def test_names_of_the_package_stay(tmp_path):
    """A distribution cannot replace a kind that swapbias has."""
    files = {"noises.py": KIND.replace('"sound"', '"masked"')}
    install(tmp_path, "noises", {"swapbias.kinds": {"masked": "noises:SOUND"}}, files)
    done = swapbias("list", folders=[tmp_path])
    assert "\nMasked language models (BERT, RoBERTa)\n" in done.stdout
    assert "Models that listen" not in done.stdout
    assert (
        "The kind 'masked' of noises is left out, for swapbias has one of this name." in done.stderr
    )


KIND_WITH_ARCHITECTURE = (
    KIND.replace(
        "    readings = ",
        '    default = "sound"\n    architectures = ("ForListening",)\n    readings = ',
    )
    .replace("Scored(0.5) for", "Scored(0.7 if 'cats' in one.text else 0.4) for")
    .replace("for _ in", "for one in")
)
NO_MODEL = "swapbias.audit(studies=['toy'], progress=False)"
FOLDER = "swapbias.audit({folder!r}, studies=['toy'], progress=False)"
SCORER = "swapbias.audit(sounds.Sound(), studies=['toy'], progress=False)"


@pytest.mark.parametrize(
    "audit", [NO_MODEL, FOLDER, SCORER], ids=["default", "architecture", "scorer"]
)
def test_model_of_an_outside_kind(audit, tmp_path):
    """A model of a kind from outside is its default, a folder of its architecture or a scorer."""
    install(
        tmp_path / "sounds",
        "sounds",
        {"swapbias.kinds": {"sound": "sounds:SOUND"}},
        {"sounds.py": KIND_WITH_ARCHITECTURE},
    )
    pets(tmp_path / "pets", study=NEW_STUDY.replace('kind = "classifier"', 'kind = "sound"'))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(
        '{"architectures": ["BertForListening"], "model_type": "bert"}'
    )
    code = f"import sounds, swapbias\nprint({audit.format(folder=str(folder))})"
    done = run(code, tmp_path / "sounds", tmp_path / "pets")
    assert "cats minus dogs, is +30.0 points" in " ".join(done.stdout.split()), done.stderr
