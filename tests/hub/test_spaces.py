"""Metrics as Spaces: one commit under one tag that loads from the Hub; cards and forms match the
modules."""

import ast
import doctest
import json
import math
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from swapbias import __version__
from swapbias.errors import UsageError
from swapbias.hub import metric_spaces as spaces
from swapbias.hub.cards import load, split
from swapbias.hub.client import Hub
from swapbias.hub.metric_spaces import standing_alone
from swapbias.measures import module_info
from swapbias.studies.catalogue import metric_path, metrics
from tests.conftest import ROOT
from tests.hub.clients import environment
from tests.hub.server import LocalHub

VERSION = "9.8.7"
FILES = ["README.md", "index.html"]
ALLOWED = {"datasets", "evaluate", "numpy", "scipy"}
MEASURES = ROOT / "swapbias" / "measures"
SHIPPED = {
    "answer_reasons.py",
    "answer_text.py",
    "answers.py",
    "errors.py",
    "public_calls.py",
    "measures.py",
    "registry.py",
    "comparisons.py",
    *(f"comparisons_{path.name}" for path in MEASURES.glob("comparisons/[a-z]*.py")),
    *(path.name for path in MEASURES.glob("[a-z]*.py")),
}


@pytest.fixture(scope="module")
def built():
    return {name: spaces.space_files(name, namespace="lab", version=VERSION) for name in metrics()}


def section(card, title):
    return re.split(r"^## ", card.split(f"\n## {title}\n")[1], flags=re.MULTILINE)[0]


def source(name):
    return (Path(metric_path(name)) / f"{name}.py").read_text()


def readme(name):
    return (Path(metric_path(name)) / "README.md").read_text()


def constant(name, wanted):
    """A text of a metric's module: ``_KWARGS_DESCRIPTION`` is what evaluate shows for its inputs."""
    assignments = (node for node in ast.parse(source(name)).body if isinstance(node, ast.Assign))
    return next(
        ast.literal_eval(finding.value)
        for finding in assignments
        if ast.unparse(finding.targets[0]) == wanted
    )


@cache
def worked_example(name):
    """Compute the example in a metric's documentation."""
    test = doctest.DocTestParser().get_doctest(
        constant(name, "_KWARGS_DESCRIPTION"), {}, name, "", 0
    )
    assert not doctest.DocTestRunner(verbose=False).run(test, clear_globs=False).failed, name
    return dict(test.globs["result"])


def output_block(result):
    """A result as a fenced block, a key a line, five digits."""
    wide = max(map(len, result))
    lines = [
        f"{key:<{wide}}  {'NaN' if math.isnan(value) else f'{value:.5g}'}"
        for key, value in result.items()
    ]
    return "\n".join(["```text", *lines, "```"])


def test_files_of_a_form():
    """A Space with evaluate's form has its code and requirements, and no page of its own."""
    files = spaces.space_files("paired_gap", namespace="lab", version=VERSION, form=spaces.GRADIO)
    assert {"app.py", "requirements.txt"} <= {*files}
    assert "index.html" not in files
    needed = files["requirements.txt"].decode().split()
    assert {re.split(r"[<>=!,]", line)[0] for line in needed} == ALLOWED
    header = load(split(files["README.md"].decode()).header, "paired_gap")
    assert (header["sdk"], header["app_file"]) == ("gradio", "app.py")
    assert "sdk_version" in header


def test_metric_files(built):
    """Each metric becomes code that imports four libraries, a card and a page."""
    assert {*built} == {path.parent.name for path in ROOT.glob("metrics/*/README.md")}
    for name, files in built.items():
        assert {*files} == {*FILES, f"{name}.py", *SHIPPED}
        for path in files.keys() - {*FILES}:
            nodes = [*ast.walk(ast.parse(files[path].decode()))]
            others = {
                node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level
            }
            others |= {
                one.name for node in nodes if isinstance(node, ast.Import) for one in node.names
            }
            assert {one.split(".")[0] for one in others} - set(
                sys.stdlib_module_names
            ) <= ALLOWED, (name, path)


@pytest.mark.parametrize(
    "line", ["from swapbias.files import write_whole", "import swapbias.measures"]
)
def test_unsupported_imports(line):
    """Code with imports that a Space does not have is refused."""
    with pytest.raises(
        ValueError, match=r"m\.py has .*, expected imports of measures, studies\.answers and errors"
    ):
        standing_alone("m", f"{line}\n")


def test_citations():
    """A citation names the package and the study of the card."""

    def entries(text):
        entry = re.compile(r"^@\w+\{([^,\s]+),\n.*?^\}", re.MULTILINE | re.DOTALL)
        return {one[1]: " ".join(one[0].split()) for one in entry.finditer(text)}

    known = entries((ROOT / "datasets_src/references.bib").read_text())
    package = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    for name in metrics():
        cited = entries(module_info("", "", constant(name, "_CITATION"))["citation"])
        software = cited.pop("swapbias")
        assert f"title = {{{package['title']}}}" in software
        assert f"author = {{{{{package['authors'][0]['name']}}}}}" in software
        assert "url = {https://github.com/swapbias/swapbias}" in software
        assert cited, name
        assert cited == {key: known[key] for key in cited}
        sources = section(readme(name), "Sources")
        assert all(key.split("-")[0] in sources.lower() for key in cited), name


def test_card_of_a_space(built):
    """A card declares a static Space and loads its metric at its version."""
    for name, files in built.items():
        parts = split(files["README.md"].decode())
        header = load(parts.header, name)
        body = parts.after
        assert (header["sdk"], header["app_file"], header["license"]) == (
            "static",
            "index.html",
            "apache-2.0",
        )
        assert {type(value) for value in header.values()} <= {str, bool, list}
        assert f'evaluate.load("lab/{name}", revision="{VERSION}")' in section(body, "How to use")
        examples = files[f"{name}.py"].decode().split("Examples:\n")[1].split('"""')[0]
        assert f'= evaluate.load("lab/{name}", revision="{VERSION}")\n' in examples, name
        assert "metric_path" not in body + files[f"{name}.py"].decode(), name
        assert spaces.NOT_A_RANKING in section(body, "Limits")
        assert "## Anchor values" in readme(name)


def test_output_in_a_card(built):
    """The output in a card is what the module computes."""
    for name, files in built.items():
        now = output_block(worked_example(name))
        assert now in readme(name), name
        assert now in files["README.md"].decode(), name
    # By hand: the differences .5, .75 and .25 have the mean .5 and the standard deviation .25.
    lines = section(built["paired_gap"]["README.md"].decode(), "Worked example").splitlines()
    assert {"value          0.5", "effect_size_z  2", "n              3"} <= set(lines)


def test_inputs_and_keys_in_a_card(built):
    """A card names every input and every key of the result."""
    groups = "_(female|male|stigmatized|other|unspecified)$"
    for name, files in built.items():
        card = files["README.md"].decode()
        tree = ast.parse(files[f"{name}.py"].decode())
        compute = next(
            one
            for one in ast.walk(tree)
            if isinstance(one, ast.FunctionDef) and one.name == "_compute"
        )
        inputs = section(card, "Inputs")
        several = "_LABEL" if name == "lexicon_mass" else "_GROUP"
        assert all(
            f"`{argument.arg}`" in inputs
            for argument in compute.args.args
            if argument.arg != "self"
        ), name
        for key in worked_example(name):
            if key in ("female", "male") or (key.startswith("share_") and name == "answer_bias"):
                continue  # labels of the example's lexicon; a row "share_correct_pro ... share_other_anti"
            assert (
                f"`{re.sub(groups, several, key)}`" in section(card, "What it returns") + inputs
            ), key


def test_clusters_in_a_card():
    """A card with the input cluster_ids says what the metric computes with it."""
    for name in metrics():
        inputs = section(readme(name), "Inputs")
        said = (
            inputs.partition("\nWith `cluster_ids`, ")[2]
            + inputs.partition(". With `cluster_ids`, ")[2]
        )
        assert bool(said) == ("| `cluster_ids` |" in inputs), name
        if said:
            assert re.search("design effect|degrees of freedom", said), name


def test_code_gives_the_output(built):
    """The code under "How to use" computes the output of the worked example."""
    for name, files in built.items():
        code = section(files["README.md"].decode(), "How to use").split("```python\n")[1]
        code = code.partition("```")[0].replace(
            f'"lab/{name}", revision="{VERSION}"', repr(str(metric_path(name)))
        )
        *lines, last = ast.parse(code).body
        scope = {}
        exec(compile(ast.Module(lines, []), name, "exec"), scope)
        result = eval(compile(ast.Expression(last.value), name, "eval"), scope)
        assert output_block(result) in readme(name), name


GRADIO = Path(os.environ.get("GRADIO_PYTHON") or ROOT / "build/gradio/bin/python")
FORM = """
import json, re, subprocess, sys
from gradio_client import Client
app = subprocess.Popen([sys.executable, "app.py"], cwd=sys.argv[1], stdout=subprocess.PIPE, text=True)
try:
    url = next(found[0] for line in app.stdout if (found := re.search(r"http://[0-9.:]+", line)))
    form = json.loads(sys.argv[2])
    print(Client(url, verbose=False).predict(form, api_name="/compute"))
finally:
    app.terminate()
"""
# A row for each prediction; JSON but for numbers. By hand: -(.5 + .25) / 2, (1 + 0 + 3/5) / 3, the mass of "she".
FORMS = [
    (
        "paired_gap predictions groups pair_ids",
        [[0.75, "b", "x"], [0.25, "a", "x"], [1, "b", "y"], [0.75, "a", "y"]],
        "'value': -0.375,",
    ),
    (
        "direct_bias predictions",
        [["[1.0, 0.0]"], ["[0.0, 2.0]"], ["[-3.0, 4.0]"]],
        "'direct_bias': 0.5333",
    ),
    (
        "lexicon_mass predictions probabilities",
        [['["she", "he"]', "[0.5, 0.25]"]],
        "'female': 0.5,",
    ),
]


@pytest.mark.skipif(
    not GRADIO.exists(), reason="needs gradio in an environment of its own: make test-spaces"
)
@pytest.mark.parametrize(("name", "rows", "shown"), FORMS)
def test_form_of_a_space(name, rows, shown, tmp_path):
    """The form of a Space starts and computes."""
    name, *columns = name.split()
    files = spaces.space_files(name, namespace="lab", version=VERSION, form=spaces.GRADIO)
    for path, data in files.items():
        (tmp_path / path).write_bytes(data)
    form = {"headers": columns, "data": rows}
    online = {
        "PATH": os.defpath,
        "PYTHONUNBUFFERED": "1",
        "HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "1",
        "GRADIO_ANALYTICS_ENABLED": "False",
    }
    command = [GRADIO, "-c", FORM, tmp_path, json.dumps(form)]
    done = subprocess.run(
        command, env=online, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


@pytest.mark.parametrize(
    ("name", "namespace"), [("no_such", "lab"), ("flip_rate", 'x", trust="'), ("flip_rate", "a/b")]
)
def test_unknown_metric_or_namespace(name, namespace):
    """An unknown metric or an unsafe namespace is refused."""
    with pytest.raises(UsageError):
        spaces.space_files(name, namespace=namespace, version=VERSION)


LOADING = """
import json, sys
for name in ("swapbias", "transformers"):  # as where they are not installed: an import fails
    sys.modules[name] = None
import evaluate
del sys.modules["transformers"]  # datasets looks whether it is loaded
found = {}
for name, code in json.load(sys.stdin).items():
    there = {}
    exec(code, there)
    module = next(one for one in there.values() if isinstance(one, evaluate.Metric))
    found[name] = [repr(there["result"]), type(module).__module__]
print(json.dumps(found))
"""


def test_metric_without_the_package(built, tmp_path):
    """A published metric without the package computes what it computes with it, bit for bit."""
    codes = {}
    for name in built:
        examples = doctest.DocTestParser().get_examples(constant(name, "_KWARGS_DESCRIPTION"))
        code = "".join(one.source for one in examples).replace(
            "import evaluate, swapbias", "import evaluate"
        )
        codes[name] = code.replace(
            f'swapbias.metric_path("{name}")', f'"lab/{name}", revision="{VERSION}"'
        )
        assert "swapbias" not in codes[name]
    with LocalHub() as hub:
        hub.add_user("ann", token="hf_ann", orgs=("lab",))
        for index, (name, files) in enumerate(built.items()):
            key = ("space", f"lab/{name}")
            hub.add_repo(
                *key, files=files, private=index % 2 == 1, sdk="static", tags=[f"v{VERSION}"]
            )
            hub.push(*key, {f"{name}.py": b"raise SystemExit('not the tagged one')"})
        online = environment(hub, home=tmp_path / "hf", token="hf_ann")
        command = [sys.executable, "-c", LOADING]
        done = subprocess.run(
            command,
            env=online,
            cwd=tmp_path,
            input=json.dumps(codes),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert sorted(found) == metrics()
    for name, (result, module) in found.items():
        assert result == repr(worked_example(name)), name
        assert f"lab--{name}" in module  # it is the downloaded one


def test_pushed_space(hub):
    """A push makes a Space with one commit under the tag of the release."""
    name = "leakage_uar"
    key = ("space", "lab/leakage_uar")
    tag = f"v{__version__}"
    done = spaces.push_metric(Hub(), name, namespace="lab", say=str)
    commits = hub.commits(*key)
    assert (done.status, hub.repo(*key).sdk, hub.repo(*key).private) == ("created", "static", False)
    assert [title for _, title in commits].count(f"Push {name} {tag} with swapbias") == 1
    assert hub.tags(*key) == {tag: commits[0][0]}
    files = spaces.space_files(name, namespace="lab", version=__version__)
    assert {
        path: data for path, data in hub.files(*key).items() if path != ".gitattributes"
    } == files
