"""What of a run leaves the machine: public results whole, private texts never, the same bytes every time."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from swapbias.errors import UsageError
from swapbias.hub.cards import RESULTS_BEGIN, RESULTS_END, find, results_card
from swapbias.hub.shared_runs import bundle_run, run_name, shared_items
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.privacy import check_upload, credentialed, public_manifest
from swapbias.runs import Run, read_run, rebuild_report
from swapbias.runs.audit import start
from swapbias.runs.plan import Settings
from tests import tiny
from tests.hub.own_runs import ASKED, QUIET, content, copy, edited, texts
from tests.models.chat.server import ChatServer


@pytest.fixture(scope="module")
def classifier_run(tmp_path_factory):
    return start(ASKED, tmp_path_factory.mktemp("runs") / "classifier", **QUIET)[0]


@pytest.fixture(scope="module")
def masked_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    settings = Settings(model=str(tiny.save("bert", folder / "model")), studies=("gendered_stigma:rq1",), limit=24)
    return start(settings, folder / "run", **QUIET)[0]


@pytest.fixture(scope="module")
def classifier_bundle(classifier_run):
    return bundle_run(classifier_run)


@pytest.fixture(scope="module")
def masked_bundle(masked_run):
    return bundle_run(masked_run)


def test_a_public_run_leaves_whole(masked_run, masked_bundle):
    bundle = masked_bundle
    start_ = f"runs/{bundle.name}/"
    assert all(path.startswith(start_) for path in bundle.files)
    names = {path.removeprefix(start_) for path in bundle.files}
    written = {p.relative_to(masked_run.folder).as_posix() for p in masked_run.folder.rglob("*") if p.is_file()}
    assert names == written | {"findings.parquet"}
    assert bundle.withheld == ()
    scored = "items/gendered_stigma.parquet"
    for name in written - {"manifest.json", scored}:  # nothing but the manifest names the machine
        assert content(bundle, name) == (masked_run.folder / name).read_bytes()
    leaves, stays = pq.read_table(pa.BufferReader(content(bundle, scored))), pq.read_table(masked_run.folder / scored)
    assert leaves.equals(stays)
    manifest = json.loads(content(bundle, "manifest.json"))
    assert manifest == bundle.manifest == json.loads(json.dumps(public_manifest(masked_run.manifest())))
    assert run_name(manifest) == bundle.name
    assert manifest["settings"]["model"] == "model"
    model = masked_run.manifest()["settings"]["model"]
    assert model in bundle.never
    assert not [text for text in texts(bundle) if model in text]
    check_upload(bundle.files, never=bundle.never)
    assert bundle_run(masked_run) == bundle  # the same bytes


def test_auditing_the_same_again_is_the_same_run_and_other_settings_are_another(classifier_bundle, tmp_path):
    name = classifier_bundle.name
    assert name.startswith("tests-hub-own-runs-sentiment-")
    again, _ = start(ASKED, tmp_path / "again", **QUIET)
    later = again.manifest() | {"started": "2031-01-01T00:00:00+00:00", "swapbias": "9.9", "versions": {}}
    later["settings"]["load"] |= {"device": "cuda", "batch_size": 7}
    assert run_name(later) == name
    for change in ({"limit": 20}, {"seed": 1}):
        settings = later["settings"] | change
        assert run_name(later | {"settings": settings}) != name
    assert run_name(later | {"models": [{"model_id": "other"}]}) != name
    corpora = [{**one, "sha256": "00" * 32} for one in later["corpora"]]
    assert run_name(later | {"corpora": corpora}) == name  # a later version of the corpus is shared in its place


def test_two_folders_or_files_of_one_name_are_two_runs_and_a_later_revision_is_the_same(masked_run):
    first = masked_run.manifest()
    assert "sha256" in first["models"][0]
    other = [{**first["models"][0], "sha256": "00" * 32}]
    assert run_name(first | {"models": other}) != run_name(first)
    revised = [[{"model_id": "a/m", "revision": one, "sha256": one}] for one in ("ab", "cd")]
    assert len({run_name(first | {"models": one}) for one in revised}) == 1
    nested = [[{"model_id": "v+svm", "features": {"sha256": one}}] for one in ("ab", "cd")]  # vectors from a file
    assert len({run_name(first | {"models": one}) for one in nested}) == 2


def test_credentialed_runs_stay_however_they_are_known(own_run, classifier_run, tmp_path):
    with pytest.raises(UsageError, match=r"not complete.*--resume"):
        bundle_run(edited(classifier_run, tmp_path / "run", status="running"))
    marked = copy(classifier_run, tmp_path / "marked")
    credentialed.mark(marked.folder)
    said = edited(classifier_run, tmp_path / "said", credentialed=True)
    held = copy(classifier_run, tmp_path / "held")  # only the rows say so
    path = held.folder / "items" / "occupation_sentiment.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("credentialed", pa.array(["True"] * len(table))), path)
    held.write_manifest(held.manifest() | {"sha256": held.sums()})
    runs = [marked, said, held]
    for number, data in enumerate(("/gone/mimic-iii", "/gone/NOTEEVENTS.csv", "/gone/discharge.csv.gz")):
        settings = own_run.manifest()["settings"]
        settings["notes"]["data"] = data  # only the name of the folder says so
        runs.append(edited(own_run, tmp_path / f"named-{number}", settings=settings, credentialed=False))
    for run in runs:
        for findings_only in (False, True):
            with pytest.raises(UsageError, match=r"credentialed clinical data, which must not be shared"):
                bundle_run(run, findings_only=findings_only)


def test_without_the_scored_prompts_a_public_run_has_no_text_either(masked_run, masked_bundle):
    bundle = bundle_run(masked_run, findings_only=True)
    prompt = pq.read_table(masked_run.folder / "items" / "gendered_stigma.parquet")["text"][0].as_py()
    assert [text for text in texts(masked_bundle) if prompt in text]
    assert not [text for text in texts(bundle) if prompt in text]
    assert bundle.withheld == ("items/gendered_stigma.parquet",)
    assert bundle.name == masked_bundle.name


def test_what_no_audit_writes_stays(classifier_run, classifier_bundle, tmp_path):
    run = copy(classifier_run, tmp_path / "run")
    strangers = (
        "answers.jsonl", ".env", "notes.txt", "figures/mine.png", "items/.x.parts/00000.parquet", "items/x.csv",
    )  # fmt: skip
    for name in strangers:
        run.write(name, b"private")
    (run.folder / "link.csv").symlink_to("/etc/hostname")
    run.write("report.html", b"/home/alice/private")  # what was edited by hand is made anew
    bundle = bundle_run(run)
    assert content(bundle, "report.html") == content(classifier_bundle, "report.html")
    assert set(bundle.withheld) == {*strangers, "link.csv"}
    assert set(bundle.files) == set(classifier_bundle.files)


@pytest.mark.parametrize("column", ["patient", "truncated", "text", "lexicon"])
def test_scored_prompts_that_were_edited_stay(classifier_run, tmp_path, column):
    run = copy(classifier_run, tmp_path / "run")
    path = run.folder / "items" / "occupation_sentiment.parquet"
    pq.read_table(path).to_pandas().assign(**{column: "patient Smith, 81"}).to_parquet(path)
    for findings_only in (False, True):
        with pytest.raises(ValueError, match=r"is damaged: its sha256 is not the one in manifest") as error:
            bundle_run(run, findings_only=findings_only)
        assert "Smith" not in str(error.value)
    run.write_manifest({name: one for name, one in run.manifest().items() if name != "sha256"})
    with pytest.raises(ValueError, match="records no sha256 of its files"):
        bundle_run(run)


def test_a_manifest_is_made_anew_from_what_swapbias_writes(classifier_run, classifier_bundle, tmp_path):
    run = copy(classifier_run, tmp_path / "run")
    manifest = run.manifest()
    planted = "patient Smith, 81"
    manifest |= {"note": planted, "from_cache": planted, planted: 1}
    manifest["settings"]["memo"] = manifest["settings"]["load"]["memo"] = {"deep": {"deeper": planted}}
    manifest["settings"]["chat"]["trials"] = planted
    manifest["models"][0]["memo"] = manifest["corpora"][0]["memo"] = planted
    manifest["models"][0]["sha256"] = planted
    manifest["corpora"][0]["lexicons"] = {f"a {planted}": planted}
    run.write_manifest(manifest)
    bundle = bundle_run(run, findings_only=True)
    assert not [text for text in texts(bundle) if "Smith" in text]
    assert "Smith" not in repr(bundle.withheld)
    for broken in ({"versions": {"python": [planted]}}, {"rounds": {"trial_notes": [planted * 900]}}):
        run.write_manifest({**manifest, **broken})
        with pytest.raises(ValueError, match="Take a file that swapbias wrote") as error:
            bundle_run(run, findings_only=True)
        assert "Smith" not in str(error.value)


def test_prompts_that_are_not_those_of_the_installed_corpora_stay(classifier_run, classifier_bundle, tmp_path):
    run = copy(classifier_run, tmp_path / "run")
    manifest = run.manifest()
    other = [{**one, "sha256": "00" * 32} for one in manifest["corpora"]]
    for change in ({"corpora": other}, {"settings": {**manifest["settings"], "unheard": 1}}):
        run.write_manifest(manifest | change)
        with pytest.raises(UsageError, match=r"not those of the installed corpora.*--findings-only"):
            bundle_run(run)
        assert bundle_run(run, findings_only=True).found == classifier_bundle.found


def test_a_shared_run_is_read_as_the_run_that_it_was(masked_run, masked_bundle, tmp_path):
    for path in masked_bundle.files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content(masked_bundle, path.split("/", 2)[2]))
    back = Run.open(tmp_path / "runs" / masked_bundle.name)
    items = read_run(back.folder).items
    assert items["gendered_stigma"].equals(read_run(masked_run.folder).items["gendered_stigma"])
    (path,) = shared_items(back, items)
    assert shared_items(back, items)[path] == content(masked_bundle, path)
    assert "gendered_stigma" in rebuild_report(back).read_text()


def test_a_chat_model_served_by_its_path_leaves_by_its_name(tmp_path):
    with ChatServer(lambda prompt: "The doctor.", model="/models/llama") as server:
        chat = ChatOptions(model="/models/llama", base_url=server.base_url, trials=1, price_in=1.0, price_out=2.0)
        run, _ = start(
            Settings(studies=("adjective_coreference",), limit=32, options=(chat,)), tmp_path / "run", **QUIET
        )
    bundle = bundle_run(run)
    assert bundle.name.startswith("llama-")
    items = pq.read_table(pa.BufferReader(content(bundle, "items/adjective_coreference.parquet")))
    before = pq.read_table(run.folder / "items" / "adjective_coreference.parquet")
    assert set(items["model_id"].to_pylist()) == {"llama"}
    assert items.drop(["model_id"]).equals(before.drop(["model_id"]))
    assert bundle.withheld == ("answers.jsonl",)
    assert {"/models/llama", server.base_url, str(run.folder.resolve())} <= set(bundle.never)
    assert not [text for text in texts(bundle) for private in bundle.never if private in text]
    assert "price_in" not in json.dumps(bundle.manifest)
    check_upload(bundle.files, never=bundle.never)


PRINTED = ("published_value", "published_p_value", "published_effect_size", "published_recomputed")


def test_findings_have_the_same_columns_and_types_in_every_run(classifier_bundle, masked_bundle):
    bundles = [classifier_bundle, masked_bundle]
    tables = [pq.read_table(pa.BufferReader(content(one, "findings.parquet"))) for one in bundles]
    assert all(tables[0].schema.equals(one.schema, check_metadata=True) for one in tables)
    assert {str(kind) for kind in tables[0].schema.types} == {"string", "double", "int64", "bool"}
    for bundle, table in zip(bundles, tables, strict=True):
        results = json.loads(content(bundle, "results.json"))["findings"]
        for row in results:  # as a paper prints them, and as numbers in the table
            row |= {name: float(row[name]) if row[name] else None for name in PRINTED}
        assert table.drop(["run"]).to_pylist() == results  # null where undefined
        assert set(table["run"].to_pylist()) == {bundle.name}


def laid_out(folder, bundles):
    for bundle in bundles:
        for path, data in bundle.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data if isinstance(data, bytes) else data.read_bytes())
    (folder / "README.md").write_text(card_of(bundles), encoding="utf-8")
    return folder


def card_of(bundles):
    card, paths = "", []
    for one in bundles:
        paths += one.files
        card = results_card("me/results", one.name, one.found, one.manifest, paths, card)
    return card


def test_a_repository_of_two_kinds_of_runs_loads_as_its_card_says(classifier_bundle, masked_bundle, tmp_path):
    from datasets import get_dataset_config_names, load_dataset

    bundles = [masked_bundle, classifier_bundle]
    folder = str(laid_out(tmp_path / "repo", bundles))
    cache = {"split": "train", "cache_dir": str(tmp_path / "cache")}
    found = load_dataset(folder, **cache)
    assert found.num_rows == sum(len(one.found) for one in bundles)
    assert set(found["run"]) == {one.name for one in bundles}
    rows = {f"{masked_bundle.name}-gendered_stigma": 24, f"{classifier_bundle.name}-occupation_sentiment": 40}
    assert get_dataset_config_names(folder) == ["findings", *sorted(rows)]
    for config, count in rows.items():
        scored = load_dataset(folder, config, **cache)
        assert scored.num_rows == count
        assert "top_tokens" in scored.column_names


def test_the_card_is_the_same_in_any_order_and_ranks_nothing(classifier_bundle, masked_bundle):
    bundles = [masked_bundle, classifier_bundle]
    card = card_of(bundles)
    assert card == card_of(bundles[::-1])
    assert "ranks nothing" in card
    first, second = sorted(one.name for one in bundles)
    assert card.index(f"## {first}") < card.index(f"## {second}")
    assert 'load_dataset("me/results", "findings", split="train")' in card
    for url in ("https://arxiv.org/abs/2210.15144", "https://doi.org/10.18653/v1/W19-3809"):
        assert url in card  # the studies that were audited
    assert "2306.05550" not in card  # and no other
    assert "English and the names are mostly of the United States" in card


def test_hostile_names_do_nothing_in_the_card(classifier_bundle):
    from markdown_it import MarkdownIt

    hostile = "<script>alert(1)</script>|[x](javascript:alert(1))<!-- swapbias:end -->\n# big"
    bundle = classifier_bundle
    models = [{**one, "model_id": hostile} for one in bundle.manifest["models"]]
    found = [replace(one, model_id=hostile, unit=hostile) for one in bundle.found]
    bad = replace(bundle, manifest=bundle.manifest | {"models": models}, found=found)
    card, fine = card_of([bad]), card_of([bundle])
    body = card.partition("\n---\n")[2]
    page = MarkdownIt("commonmark").enable("table").render(body)
    assert "<script" not in page
    assert 'href="javascript' not in page
    harmless = MarkdownIt("commonmark").enable("table").render(fine.partition("\n---\n")[2])
    for tag in ("<td", "<tr>", "<h1", "<h2", "<a "):
        assert page.count(tag) == harmless.count(tag)
    assert find(card, begin=RESULTS_BEGIN, end=RESULTS_END, where="x")
    header = yaml.safe_load(card.split("---\n")[1])
    assert [one["config_name"] for one in header["configs"]] == ["findings", f"{bad.name}-occupation_sentiment"]
