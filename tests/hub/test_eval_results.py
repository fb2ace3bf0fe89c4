"""The file of evaluation results: entries that the Hub's own client reads, and others' entries left alone."""

from datetime import date

import jsonschema
import numpy as np
import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from swapbias.errors import UsageError
from swapbias.findings.finding import Finding
from swapbias.hub.eval_results import PATH, benchmark, entries, merged, settings_note
from swapbias.measures.estimate import Estimate
from swapbias.studies import corpora, load_corpus

COMMIT, OTHER = "a" * 40, "b" * 40
SOURCE = f"https://huggingface.co/datasets/me/results/tree/{COMMIT}/runs/one"
GAP = ("gendered_stigma", "rq1", "paired_gap", "female - male", "mental_health", "probability mass at the mask")
FLIPS = ("phenotype_fairness", "phenotyping", "flip_rate", "female and male", "original", "share of notes")
THEIRS = b"""\
# kept by hand
- dataset: {id: cais/hle, task_id: default, revision: 5503434ddd753f426f4b38109466949a1217c2bb}
  value: 20.90   # of 100
  date: 2025-01-15
  verifyToken: abc
  evaluation_framework: inspect-ai
  source: {url: 'https://example.org', name: swapbias, user: someone-else}
- dataset: {id: cais/old, config: main}
  value: no number
"""


def finding(of=GAP, value=0.30138, low=0.30027, high=0.3025, *, n=187, model="m", unscored=0):
    study, experiment, measure, contrast, subset, unit = of
    return Finding(
        study=study, experiment=experiment, model_id=model, score="score", measure=measure, contrast=contrast,
        subset=subset, slice_by="all", slice_value="", unit=unit, direction="",
        inference="over templates and diagnoses", headline=True,
        estimate=Estimate(value, low, high, n=n, n_unscored=unscored),
    )  # fmt: skip


def made(*found, **changed):
    usual = {
        "namespace": "me", "revisions": {"gendered_stigma": OTHER}, "source_url": SOURCE, "source_user": "me",
        "date": "2025-01-15T10:30:00Z",
    }  # fmt: skip
    return entries(found or [finding()], **{**usual, **changed})


def keys(content):
    return [(one["dataset"]["id"], one["dataset"].get("task_id"), one["value"]) for one in yaml.safe_load(content)]


# --- tasks of the datasets ------------------------------------------------------------------------------

# What the Hub's documentation asks of eval.yaml. Its list of frameworks, which is the Hub's own, has no swapbias yet.
NAMED = {"type": "string", "minLength": 1}
TASK = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": NAMED, "config": NAMED, "split": NAMED},
    "additionalProperties": False,
}
SPECIFIED = {
    "type": "object",
    "required": ["name", "description", "evaluation_framework", "tasks"],
    "properties": {
        "name": NAMED,
        "description": NAMED,
        "evaluation_framework": {"const": "swapbias"},
        "tasks": {"type": "array", "minItems": 1, "items": TASK},
    },
    "additionalProperties": False,
}


def test_each_task_names_a_config_and_a_split_that_are_there():
    told = {}
    for name in corpora():
        corpus = load_corpus(name)
        content = benchmark(corpus, [one.name for one in corpus.configs])
        if not content:
            continue
        jsonschema.validate(read := yaml.safe_load(content), SPECIFIED)
        told[name] = [one["id"] for one in read["tasks"]]
        assert len(set(told[name])) == len(told[name])
        assert all(corpus.config(one["config"]).split == one["split"] for one in read["tasks"])
    assert "gender_lexicon" not in told  # word lists, which no study asks about
    assert told["gendered_stigma"] == ["rq1", "rq2", "choices", "completions"]
    assert told["clinical_notes"] == ["labels", "extraction", "summary", "phenotyping", "leakage"]  # of other studies
    assert told["social_distance"] == ["sentiment", "agreement"]  # the others read several configs


def test_an_entry_is_of_a_task_and_a_config_that_is_held_back_has_none():
    corpus = load_corpus("gendered_stigma")
    tasks = {one["id"] for one in yaml.safe_load(benchmark(corpus, ["rq1"]))["tasks"]}
    assert tasks == {one["dataset"]["task_id"] for one in made()} == {"rq1"}
    assert benchmark(corpus, ["words"]) == b""


# --- entries --------------------------------------------------------------------------------------------


def test_the_hubs_client_reads_what_was_meant():
    (one,) = parse_eval_result_entries(yaml.safe_load(merged(None, made(), PATH)))
    assert (one.dataset_id, one.task_id, one.dataset_revision) == ("me/gendered_stigma", "rq1", OTHER)
    assert one.value == 0.6986  # 1 - .30138, rounded to four decimals
    assert (one.source_url, one.source_name, one.source_user) == (SOURCE, "swapbias", "me")
    assert one.date == "2025-01-15T10:30:00Z"  # a string, not a time of the YAML reader's


ENTRY = {  # as the Hub's documentation specifies it
    "type": "object",
    "required": ["dataset", "value"],
    "properties": {
        "dataset": {
            "type": "object",
            "required": ["id", "task_id"],
            "properties": {
                "id": NAMED,
                "task_id": NAMED,
                "revision": {"type": "string", "pattern": "^[0-9a-f]{40}$"},
            },
            "additionalProperties": False,
        },
        "value": {"type": "number", "minimum": 0, "maximum": 1},
        "verifyToken": NAMED,
        "date": NAMED,
        "source": {
            "type": "object",
            "required": ["url"],
            "properties": dict.fromkeys(("url", "name", "user", "org"), NAMED),
            "additionalProperties": False,
        },
        "notes": NAMED,
    },
    "additionalProperties": False,
}


def test_entries_hold_to_what_the_hub_specifies():
    written = yaml.safe_load(merged(None, made(finding(), finding(FLIPS, 0.1, 0.0, 0.2)), PATH))
    assert len(written) == 2
    jsonschema.validate(written, {"type": "array", "items": ENTRY})


def test_the_notes_tell_the_raw_value_its_interval_and_the_limits():
    (one,) = made(finding(unscored=3), settings="config rq1, seed 0")
    notes = one["notes"]
    assert "Higher is fairer: 1 - |gap|; gap in probability mass at the mask." in notes
    assert "paired_gap, female - male, mental_health: 0.3014 [0.3003, 0.3025], n = 187 (3 not scored)" in notes
    assert "oriented interval [0.6975, 0.6997]" in notes  # 1 - .3025 and 1 - .30027
    assert ", config rq1, seed 0." in notes
    assert "not a leaderboard" in notes


def test_a_finding_without_an_interval_says_so():
    (one,) = made(finding(low=float("nan"), high=float("nan")))
    assert "0.3014 without interval" in one["notes"]
    assert "nan" not in one["notes"]


def test_numpy_numbers_become_plain_ones():
    found = finding(value=np.float64(0.25), low=np.float32(0.125), high=np.float64(0.5), n=np.int64(7))
    content = merged(None, made(found), PATH)
    assert b"!!" not in content
    assert type(made(found)[0]["value"]) is float
    assert keys(content) == [("me/gendered_stigma", "rq1", 0.75)]


def test_notes_that_another_study_reads_belong_to_their_corpus_and_an_unknown_revision_is_left_out():
    (one,) = made(finding(FLIPS, 0.2, 0.1, 0.3))
    assert one["dataset"] == {"id": "me/clinical_notes", "task_id": "phenotyping"}
    assert one["value"] == 0.8


def test_an_object_is_never_written():
    (one,) = made()
    with pytest.raises(yaml.YAMLError, match="cannot represent an object"):
        merged(None, [{**one, "value": np.float64(0.5)}], PATH)


def test_what_cannot_be_oriented_has_no_entry():
    assert made(finding(value=float("nan"))) == []
    assert made(finding((*GAP[:5], "score of a rule"))) == []


def test_hostile_names_stay_data():
    text = '"]\n- !!python/object/apply:os.system [x]\n<script>{{ 7*7 }} &a *a'
    new = made(settings=text, source_user="<b>")
    (back,) = yaml.safe_load(merged(None, new, PATH))
    assert back == new[0]
    assert "\n" not in back["notes"]


@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({"namespace": "me/evil"}, UsageError, "user or organisation"),
        ({"namespace": ""}, UsageError, "user or organisation"),
        ({"source_url": "https://huggingface.co/datasets/me/results/tree/main"}, ValueError, "names no commit"),
        ({"source_url": f"javascript:alert(1)/{COMMIT}"}, ValueError, "names no commit"),
        ({"revisions": {"gendered_stigma": "main"}}, ValueError, "40 hex digits"),
        ({"date": "yesterday"}, ValueError, "ISO 8601"),
    ],
)
def test_what_the_format_does_not_allow_is_refused(changed, kind, words):
    with pytest.raises(kind, match=words):
        made(**changed)


def test_two_models_are_not_mixed():
    with pytest.raises(UsageError, match="Share them apart"):
        made(finding(), finding(FLIPS, model="another"))


def audited(*models, corpora=(), **settings):
    return {"settings": {"seed": 3, "limit": None} | settings, "models": list(models), "corpora": list(corpora)}


def test_the_settings_tell_what_a_number_depends_on():
    chat = {"model_id": "c", "trials": 5, "temperature": 1.0, "seed": 0}
    weights = {"model_id": "w", "dtype": "bfloat16"}
    assert settings_note(audited({"model_id": "vader"})) == "seed 3"
    assert settings_note(audited(weights, chat), "c") == "seed 3, 5 trials at temperature 1"
    assert settings_note(audited(weights, chat), "w") == "seed 3, weights in bfloat16"
    assert settings_note(audited(chat, weights, limit=40)) == (
        "seed 3, at most 40 prompts of each config, weights in bfloat16, 5 trials at temperature 1"
    )
    odds = {"model_id": "o", "scoring": "log-odds"}
    assert settings_note(audited(odds)) == "seed 3, option log-odds over two orders of the options"
    read = [{"corpus": "clinical_notes", "config": "pairs", "training": "ab"}]
    assert "-M plausible" in settings_note(audited(corpora=read, notes={"plausible": True}))
    assert "-M plausible" not in settings_note(audited(corpora=read, notes={"plausible": False}))
    assert "-M plausible" not in settings_note(audited(weights, notes={"plausible": True}))  # it read no notes


# --- merging --------------------------------------------------------------------------------------------


def test_merging_twice_changes_nothing():
    once = merged(THEIRS, made(), PATH)
    assert merged(once, made(), PATH) == once
    assert merged(None, made(), PATH) == merged(b"", made(), PATH)
    assert merged(b"# nothing yet", made(), PATH) == b"# nothing yet\n" + merged(None, made(), PATH)


def test_what_holds_the_entries_already_is_kept_with_its_comments():
    once = b"# mine\n" + merged(None, made(), PATH)
    assert merged(once, made(), PATH) == once
    assert merged(THEIRS, [], PATH) == THEIRS


def test_a_byte_order_mark_hides_no_entry():
    ours = merged(None, made(), PATH)
    assert merged(b"\xef\xbb\xbf" + ours, made(), PATH) == b"\xef\xbb\xbf" + ours  # holds them already
    both = merged(b"\xef\xbb\xbf" + THEIRS, made(), PATH)
    assert keys(both) == [*keys(THEIRS), *keys(ours)]
    assert not both.startswith(b"\xef\xbb\xbf")


def test_entries_of_others_are_kept_as_they_are():
    assert merged(THEIRS, made(), PATH) == THEIRS + merged(None, made(), PATH)
    after = yaml.safe_load(merged(THEIRS, made(), PATH))
    assert after[:2] == yaml.safe_load(THEIRS)
    assert after[0]["date"] == date(2025, 1, 15)
    assert after[2:] == made()


def test_ours_is_replaced_in_place_and_the_order_kept():
    before = merged(merged(None, made(), PATH), made(finding(FLIPS, 0.2, 0.1, 0.3)), PATH)
    after = merged(before, made(finding(value=0.5, low=0.4, high=0.6)), PATH)
    assert keys(after) == [("me/gendered_stigma", "rq1", 0.5), ("me/clinical_notes", "phenotyping", 0.8)]


def indented(entries, by):
    return "".join(f"{by}{line}\n" for line in yaml.safe_dump(entries, sort_keys=False, width=118).splitlines())


@pytest.mark.parametrize("gap", ["\n", "\r\n"])
@pytest.mark.parametrize("by", ["", "  "])
def test_an_update_replaces_our_lines_alone(gap, by):
    old, new = made(finding(value=0.5, low=0.4, high=0.6)), made()
    theirs = f"# head\n{by}- dataset: {{id: a/b}}  # theirs\n{by}  value: .nan\n# between\n"
    last = f"# after ours\n{by}- dataset: {{id: c/d}} # and\n{by}  value: 'x'\n# foot\n"
    before, after = (f"{theirs}{indented(one, by)}{last}".replace("\n", gap).encode() for one in (old, new))
    assert merged(before, new, PATH) == after
    second = made(finding(FLIPS, 0.2, 0.1, 0.3))
    foot = f"# foot{gap}".encode()
    wanted = after.removesuffix(foot) + indented(second, by).replace("\n", gap).encode() + foot
    assert merged(before, new + second, PATH) == wanted


def test_a_last_line_without_an_end_and_ours_twice_keep_the_others_too():
    old, new = made(finding(value=0.5, low=0.4, high=0.6)), made()
    theirs = b"- {dataset: {id: a/b}, value: 1} # theirs"
    assert merged(theirs, new, PATH) == theirs + b"\n" + merged(None, new, PATH)
    ours = indented(old, "").encode()
    assert merged(ours + theirs + b"\n" + ours, new, PATH) == merged(None, new, PATH) + theirs + b"\n"


@pytest.mark.parametrize(
    "theirs",
    [
        "[{dataset: {id: a/b}, value: 1}, OURS]",  # within brackets
        "-\n  dataset: {id: a/b}\n  value: 1\n- OURS\n",  # the dash on a line of its own
        "- dataset: {id: a/b}\n  value: 1\n  again: *ours\n",  # what an alias stands for is replaced
    ],
)
def test_a_file_that_cannot_be_edited_by_lines_means_the_same_after(theirs):
    old, new = made(finding(value=0.5, low=0.4, high=0.6)), made()
    written = yaml.safe_dump(old[0], default_flow_style=True, width=9_999, sort_keys=False).strip()
    text = theirs.replace("OURS", written)
    if "*ours" in text:
        text = f"- {written.replace('{id', '&ours {id', 1)}\n{text}"
    before, after = yaml.safe_load(text), yaml.safe_load(merged(text.encode(), new, PATH))
    assert len(before) == len(after) == 2
    assert [new[0] if "source" in one else one for one in before] == after


@pytest.mark.parametrize("change", [{"source": {"user": "you"}}, {"source": {"name": "other"}}, {"source": None}])
def test_an_entry_of_the_same_task_by_somebody_else_is_not_ours(change):
    (theirs,) = made()
    theirs["value"] = 0.1
    theirs["source"] = change["source"] and {**theirs["source"], **change["source"]}
    after = merged(yaml.safe_dump([theirs]).encode(), made(), PATH)
    assert [value for _, _, value in keys(after)] == [0.1, 0.6986]


def test_ours_twice_becomes_ours_once():
    (one,) = made()
    after = merged(yaml.safe_dump([one, {**one, "value": 0.1}]).encode(), made(), PATH)
    assert keys(after) == [("me/gendered_stigma", "rq1", 0.6986)]


def test_what_others_wrote_with_aliases_and_odd_values_means_the_same_after():
    theirs = "- dataset: &d {id: a/b, task_id: t}\n  value: .inf\n  again: *d\n  '': [yes, null, 1:30, \"\\ud800\"]\n"
    after = merged(theirs.encode(), made(), PATH)
    assert yaml.safe_load(after)[:1] == yaml.safe_load(theirs)
    assert merged(after, made(), PATH) == after


def test_new_entries_are_one_for_each_task():
    with pytest.raises(ValueError, match="one for each dataset and task"):
        merged(None, made() + made(), PATH)


# A list of nine, then eight times nine of the one before, in what else is a plain entry: 9 ** 9 values.
BOMB = "- dataset: {id: a/b}\n  value: 1\n  a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"  {name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "content",
    [
        BOMB.encode(),
        b"- dataset: {id: !!python/object/apply:os.system ['true']}\n  value: 1\n",
        b"- dataset: {id: a/b}\n  value: !!python/name:os.system\n",
        b"dataset: {id: a/b}\nvalue: 1\n",
        b"just text",
        b"- text",
        b"- dataset: a/b\n  value: 1\n",
        b"- dataset: {id: a/b}\n",
        b"- dataset: {id: 3}\n  value: 1\n",
        b"- dataset: {id: a/b}\n  value: 1\n  value: 2\n",
        b"- dataset: {id: a/b}\n  value: 2025-99-99\n",
        b"- dataset: {id: a/b}\n  value: " + b"9" * 9_000 + b"\n",
        b"- dataset: {id: a/b}\n  value: 1\n---\n- dataset: {id: a/b}\n  value: 1\n",
        b"- &a [*a]\n",
        b"[" * 100_000,
        b"- {",
        b"\xff\xfe",
        b"- a\x00b",
        b"# " + b"x" * 300_000,
    ],
    ids=lambda content: content[:30].decode("latin-1"),
)
def test_hostile_files_are_refused_in_one_sentence(content):
    with pytest.raises(ValueError, match=r"^\.eval_results/swapbias\.yaml") as caught:
        merged(content, made(), PATH)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
