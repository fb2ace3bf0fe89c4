"""Bundles of runs: public results are whole, private texts never included, and bytes are
reproducible."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from swapbias.errors import UsageError
from swapbias.hub.bundle import bundle_run, run_name, shared_items
from swapbias.hub.run_cards import results_card
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.privacy import check_upload, credentialed, public_manifest
from swapbias.runs import Run, read_run, rebuild_report
from swapbias.runs.audit import start
from swapbias.runs.settings import Settings
from tests import tiny
from tests.conftest import files_below
from tests.hub.own_runs import QUIET, RUN_SETTINGS, copy, edited
from tests.models.chat.server import ChatServer

SCORED = "items/gendered_stigma.parquet"


@pytest.fixture(scope="module")
def masked_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    settings = Settings(
        model=str(tiny.save("bert", folder / "model")), studies=("gendered_stigma:rq1",), limit=24
    )
    return start(settings, folder / "run", **QUIET)[0]


@pytest.fixture(scope="module")
def bundle(run):
    return bundle_run(run)


@pytest.fixture(scope="module")
def masked_bundle(masked_run):
    return bundle_run(masked_run)


def content(bundle, path):
    return bundle.files[f"{bundle.folder}/{path}"]


def table(bundle, path):
    return pq.read_table(pa.BufferReader(content(bundle, path)))


def files_holding(bundle, *words):
    """The files that hold a word, as bytes or in strings within Parquet."""
    for path, data in bundle.files.items():
        text = data.decode(errors="replace")
        if path.endswith(".parquet"):
            text += str(pq.read_table(pa.BufferReader(data)).to_pylist())
        if any(word in text for word in words):
            yield path


def test_public_run_is_bundled_whole(masked_run, masked_bundle):
    """The bundle of a public run holds all its files, unchanged but for the manifest."""
    written = files_below(masked_run.folder)
    bundle = masked_bundle
    assert {*bundle.files} == {f"{bundle.folder}/{name}" for name in (*written, "findings.parquet")}
    assert bundle.withheld == ()
    for name in written.keys() - {
        "manifest.json",
        SCORED,
    }:  # nothing but the manifest names the machine
        assert content(bundle, name) == written[name]
    leaves = table(bundle, SCORED)
    stays = pq.read_table(masked_run.folder / SCORED)
    assert leaves.equals(stays)
    manifest = json.loads(content(bundle, "manifest.json"))
    assert (
        manifest
        == bundle.manifest
        == json.loads(json.dumps(public_manifest(masked_run.manifest())))
    )
    assert run_name(manifest) == bundle.name
    assert manifest["settings"]["model"] == "model"
    model = masked_run.manifest()["settings"]["model"]
    assert model in bundle.never
    assert not [*files_holding(bundle, model)]
    check_upload(bundle.files, never=bundle.never)
    assert bundle_run(masked_run) == bundle  # the same bytes


def test_name_of_a_bundle(bundle, masked_run, tmp_path):
    """The name of a bundle depends on models, weights, corpora and settings, and on nothing else."""
    name = bundle.name
    assert name.startswith("tests-hub-own-runs-scored-")
    again, _ = start(RUN_SETTINGS, tmp_path / "again", **QUIET)
    later = again.manifest() | {
        "started": "2031-01-01T00:00:00+00:00",
        "swapbias": "9.9",
        "versions": {},
    }
    later["settings"]["load"] |= {"device": "cuda", "batch_size": 7}
    assert run_name(later) == name
    corpora = [{**one, "sha256": "00" * 32} for one in later["corpora"]]
    assert (
        run_name(later | {"corpora": corpora}) == name
    )  # a later version of the corpus is shared in its place
    for change in ({"limit": 20}, {"seed": 1}):
        assert run_name(later | {"settings": later["settings"] | change}) != name

    def names(*models):
        return {run_name(later | {"models": [{**one}]}) for one in models}

    (model,) = masked_run.manifest()["models"]
    assert len(names(model, {**model, "sha256": "00" * 32})) == 2  # two folders of one name
    assert (
        len(names(*({"model_id": "a/m", "revision": one, "sha256": one} for one in ("ab", "cd"))))
        == 1
    )
    assert (
        len(names(*({"model_id": "v+svm", "features": {"sha256": one}} for one in ("ab", "cd"))))
        == 2
    )


def test_credentialed_runs_are_refused(run, tmp_path):
    """A run of credentialed notes is refused whether its folder, its rows or its manifest say so."""
    with pytest.raises(UsageError, match=r"not complete.*--resume"):
        bundle_run(edited(run, tmp_path / "run", status="running"))
    marked = copy(run, tmp_path / "marked")
    credentialed.mark(marked.folder)
    copied = copy(run, tmp_path / "held")  # only the rows say so
    path = copied.folder / "items" / "occupation_sentiment.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.append_column("credentialed", pa.array(["True"] * len(rows))), path)
    copied.write_manifest(copied.manifest() | {"sha256": copied.sums()})
    runs = [marked, copied, edited(run, tmp_path / "said", credentialed=True)]
    for number, data in enumerate(
        ("/gone/mimic-iii", "/gone/NOTEEVENTS.csv", "/gone/discharge.csv.gz")
    ):
        settings = run.manifest()["settings"] | {
            "notes": {"data": data}
        }  # only the name of the folder says so
        runs.append(
            edited(run, tmp_path / f"named-{number}", settings=settings, credentialed=False)
        )
    for one in runs:
        for findings_only in (False, True):
            with pytest.raises(
                UsageError, match=r"credentialed clinical data, which must not be shared"
            ):
                bundle_run(one, findings_only=findings_only)


def test_bundle_of_findings_only(masked_run, masked_bundle):
    """A bundle without scored prompts holds no text of a prompt anywhere."""
    bundle = bundle_run(masked_run, findings_only=True)
    prompt = pq.read_table(masked_run.folder / SCORED)["text"][0].as_py()
    assert [*files_holding(masked_bundle, prompt)]
    assert not [*files_holding(bundle, prompt)]
    assert bundle.withheld == (SCORED,)
    assert bundle.name == masked_bundle.name


def test_unknown_files_are_withheld(run, bundle, tmp_path):
    """Files that no audit writes are withheld, and an edited report is made anew."""
    run = copy(run, tmp_path / "run")
    strangers = (
        "answers.jsonl", ".env", "notes.txt", "figures/mine.png", "items/.x.parts/00000.parquet", "items/x.csv",
    )  # fmt: skip
    for name in strangers:
        run.write(name, b"private")
    (run.folder / "link.csv").symlink_to("/etc/hostname")
    run.write("report.html", b"/home/alice/private")  # what was edited by hand is made anew
    made = bundle_run(run)
    assert content(made, "report.html") == content(bundle, "report.html")
    assert set(made.withheld) == {*strangers, "link.csv"}
    assert set(made.files) == set(bundle.files)


def test_edited_scored_prompts(run, tmp_path):
    """A run with edited scored prompts is refused."""
    run = copy(run, tmp_path / "run")
    path = run.folder / "items" / "occupation_sentiment.parquet"
    pq.read_table(path).to_pandas().assign(text="patient Smith, 81").to_parquet(path)
    for findings_only in (False, True):
        with pytest.raises(
            ValueError, match=r"is damaged: its sha256 is not the one in manifest"
        ) as error:
            bundle_run(run, findings_only=findings_only)
        assert "Smith" not in str(error.value)
    run.write_manifest({name: one for name, one in run.manifest().items() if name != "sha256"})
    with pytest.raises(ValueError, match="records no sha256 of its files"):
        bundle_run(run)


def test_manifest_is_rebuilt(run, tmp_path):
    """The manifest of a bundle holds what swapbias writes, and planted keys and texts are dropped
    or refused."""
    run = copy(run, tmp_path / "run")
    manifest = run.manifest()
    planted = "patient Smith, 81"
    manifest |= {"note": planted, "from_cache": planted, planted: 1}
    manifest["settings"]["memo"] = manifest["settings"]["load"]["memo"] = {
        "deep": {"deeper": planted}
    }
    manifest["settings"]["chat"]["trials"] = planted
    manifest["models"][0]["memo"] = manifest["corpora"][0]["memo"] = planted
    manifest["models"][0]["sha256"] = planted
    manifest["corpora"][0]["lexicons"] = {f"a {planted}": planted}
    run.write_manifest(manifest)
    bundle = bundle_run(run, findings_only=True)
    assert not [*files_holding(bundle, "Smith")]
    assert "Smith" not in repr(bundle.withheld)
    for broken in (
        {"versions": {"python": [planted]}},
        {"rounds": {"trial_notes": [planted * 900]}},
    ):
        run.write_manifest({**manifest, **broken})
        with pytest.raises(ValueError, match="Take a file that swapbias wrote") as error:
            bundle_run(run, findings_only=True)
        assert "Smith" not in str(error.value)


def test_unknown_prompts_are_withheld(run, bundle, tmp_path):
    """Prompts that differ from those of the installed corpora are shared as findings only."""
    run = copy(run, tmp_path / "run")
    manifest = run.manifest()
    other = [{**one, "sha256": "00" * 32} for one in manifest["corpora"]]
    for change in ({"corpora": other}, {"settings": {**manifest["settings"], "unheard": 1}}):
        run.write_manifest(manifest | change)
        with pytest.raises(
            UsageError, match=r"not those of the installed corpora.*--findings-only"
        ):
            bundle_run(run)
        assert bundle_run(run, findings_only=True).findings == bundle.findings


def test_chat_model_served_by_path(tmp_path):
    """A chat model that is served by its path is shared under its name alone."""
    with ChatServer(lambda prompt: "The doctor.", model="/models/llama") as server:
        chat = ChatOptions(
            model="/models/llama", base_url=server.base_url, trials=1, price_in=1.0, price_out=2.0
        )
        settings = Settings(studies=("adjective_coreference",), limit=32, options=(chat,))
        run, _ = start(settings, tmp_path / "run", **QUIET)
    bundle = bundle_run(run)
    path = "items/adjective_coreference.parquet"
    assert bundle.name.startswith("llama-")
    items = table(bundle, path)
    assert set(items["model_id"].to_pylist()) == {"llama"}
    assert items.drop(["model_id"]).equals(pq.read_table(run.folder / path).drop(["model_id"]))
    assert bundle.withheld == ("answers.jsonl",)
    assert {"/models/llama", server.base_url, str(run.folder.resolve())} <= set(bundle.never)
    assert not [*files_holding(bundle, *bundle.never)]
    assert "price_in" not in json.dumps(bundle.manifest)
    check_upload(bundle.files, never=bundle.never)


PRINTED = ("published_value", "published_p_value", "published_effect_size", "published_recomputed")


def test_columns_of_findings(bundle, masked_bundle):
    """Findings have the same columns and types in every run."""
    tables = [table(one, "findings.parquet") for one in (bundle, masked_bundle)]
    assert tables[0].schema.equals(tables[1].schema, check_metadata=True)
    assert {str(kind) for kind in tables[0].schema.types} == {"string", "double", "int64", "bool"}
    for one, found in zip((bundle, masked_bundle), tables, strict=True):
        results = json.loads(content(one, "results.json"))["findings"]
        for row in results:  # as a paper prints them, and as numbers in the table
            row |= {name: float(row[name]) if row[name] else None for name in PRINTED}
        assert found.drop(["run"]).to_pylist() == results  # null where undefined
        assert set(found["run"].to_pylist()) == {one.name}


def card_of(*bundles):
    card = ""
    paths = []
    for bundle in bundles:
        paths += bundle.files
        card = results_card(
            "me/results", bundle.name, bundle.findings, bundle.manifest, paths, card
        )
    return card


def test_repository_of_two_kinds(bundle, masked_run, masked_bundle, tmp_path):
    """A repository with runs of two kinds loads as its card says and is read back as the runs."""
    from datasets import get_dataset_config_names, load_dataset

    repo = tmp_path / "repo"
    bundles = (masked_bundle, bundle)
    name = masked_bundle.name
    card = card_of(*bundles).encode()
    for path, data in {**masked_bundle.files, **bundle.files, "README.md": card}.items():
        Run(repo).write(path, data)
    cache = {"split": "train", "cache_dir": str(tmp_path / "cache")}
    found = load_dataset(str(repo), **cache)
    assert found.num_rows == sum(len(one.findings) for one in bundles)
    assert set(found["run"]) == {one.name for one in bundles}
    rows = {
        f"{name}-gendered_stigma": 24,
        f"{bundle.name}-occupation_sentiment": 4800,
    }  # with wordings
    assert get_dataset_config_names(str(repo)) == ["findings", *sorted(rows)]
    for config, count in rows.items():
        scored = load_dataset(str(repo), config, **cache)
        assert scored.num_rows == count
        assert "top_tokens" in scored.column_names
    back = Run.open(repo / "runs" / name)
    items = read_run(back.folder).items
    assert items["gendered_stigma"].equals(read_run(masked_run.folder).items["gendered_stigma"])
    assert shared_items(back, items) == {SCORED: content(masked_bundle, SCORED)}
    assert "gendered_stigma" in rebuild_report(back).read_text()


def test_card_in_any_order(bundle, masked_bundle):
    """The card is the same for any order of runs and ranks nothing."""
    card = card_of(masked_bundle, bundle)
    assert card == card_of(bundle, masked_bundle)
    assert "ranks nothing" in card
    first, second = sorted((bundle.name, masked_bundle.name))
    assert card.index(f"## {first}") < card.index(f"## {second}")
    assert 'load_dataset("me/results", "findings", split="train")' in card
    for url in ("https://arxiv.org/abs/2210.15144", "https://doi.org/10.18653/v1/W19-3809"):
        assert url in card  # the studies that were audited
    assert "2306.05550" not in card  # and no other
    assert "English and the names are mostly of the United States" in card
