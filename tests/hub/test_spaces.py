"""Metrics as Spaces: what is uploaded loads from the Hub, and card and page say what the module computes."""

import ast
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from swapbias.errors import UsageError
from swapbias.hub import spaces
from swapbias.studies.catalogue import metric_path, metrics
from tests.conftest import ROOT
from tests.hub.clients import environment
from tests.hub.server import LocalHub

VERSION = "9.8.7"
FILES = ["README.md", "index.html", "requirements.txt"]
SECTIONS = [
    "Formula",
    "Inputs",
    "How to use",
    "Worked example",
    "What it returns",
    "Anchor values",
    "Limits",
    "Sources",
    "From rows to a finding",
]


@pytest.fixture(scope="module")
def built():
    return {name: spaces.space_files(name, namespace="lab", version=VERSION) for name in metrics()}


def section(card, title):
    return re.split(r"^## ", card.split(f"\n## {title}\n")[1], flags=re.MULTILINE)[0]


class Tags(HTMLParser):
    """Every start tag with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_all_ten_metrics_make_a_module_requirements_a_card_and_a_page(built):
    assert len(built) == 10
    assert all(sorted(files) == sorted([*FILES, f"{name}.py"]) for name, files in built.items())


def test_evaluate_tells_users_to_install_the_very_release(built, tmp_path):
    from evaluate.loading import get_imports

    release = f"git+https://github.com/swapbias/swapbias@v{VERSION}"
    for name, files in built.items():
        (tmp_path / f"{name}.py").write_bytes(files[f"{name}.py"])
        found = {imported[1]: imported[2] for imported in get_imports(str(tmp_path / f"{name}.py"))}
        assert found["swapbias"] == release
        assert files["requirements.txt"] == f"{release}\n".encode()
        # Nothing but the release and where the example loads from differs from the module in the package.
        mine = (Path(metric_path(name)) / f"{name}.py").read_text()
        here = mine.replace("import evaluate, swapbias", "import evaluate")
        here = here.replace(f'swapbias.metric_path("{name}")', f'"lab/{name}", revision="{VERSION}"')
        assert files[f"{name}.py"].decode().replace(f"swapbias@v{VERSION}", "swapbias") == here


def test_the_example_in_a_published_module_loads_it_from_the_hub(built):
    for name, files in built.items():
        examples = files[f"{name}.py"].decode().split("Examples:\n")[1].split('"""')[0]
        assert f'= evaluate.load("lab/{name}", revision="{VERSION}")\n' in examples, name
        assert "metric_path" not in files[f"{name}.py"].decode(), name


def test_a_citation_is_of_the_package_and_of_the_study_that_the_card_names():
    entry = re.compile(r"^@\w+\{([^,\s]+),\n.*?^\}", re.MULTILINE | re.DOTALL)
    known = {
        one[1]: " ".join(one[0].split()) for one in entry.finditer((ROOT / "datasets_src/references.bib").read_text())
    }
    package = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    for name in metrics():
        tree = ast.parse((Path(metric_path(name)) / f"{name}.py").read_text())
        told = next(ast.literal_eval(one.value) for one in tree.body if getattr(one, "targets", None)
                    and ast.unparse(one.targets[0]) == "_CITATION")  # fmt: skip
        cited = {one[1]: " ".join(one[0].split()) for one in entry.finditer(told)}
        software = cited.pop("swapbias")
        assert f"title = {{{package['title']}}}" in software
        assert f"author = {{{{{package['authors'][0]['name']}}}}}" in software
        assert "url = {https://github.com/swapbias/swapbias}" in software
        assert cited, name
        assert cited == {key: known[key] for key in cited}
        sources = section((Path(metric_path(name)) / "README.md").read_text(), "Sources")
        assert all(key.split("-")[0] in sources.lower() for key in cited), name


def test_a_card_is_a_static_space_and_loads_its_own_name_at_its_own_version(built):
    for name, files in built.items():
        header, body = spaces.split_card(files["README.md"].decode())
        assert (header["sdk"], header["app_file"], header["license"]) == ("static", "index.html", "apache-2.0")
        assert {type(value) for value in header.values()} <= {str, bool, list}
        assert f'evaluate.load("lab/{name}", revision="{VERSION}")' in section(body, "How to use")
        assert "metric_path" not in body
        assert spaces.NOT_A_RANKING in section(body, "Limits")


def test_the_output_in_a_card_is_what_the_module_computes(built):
    for name, files in built.items():
        now = spaces.output_block(spaces.worked_example(name))
        assert now in (Path(metric_path(name)) / "README.md").read_text(), name
        assert now in files["README.md"].decode(), name
    # By hand: the differences .5, .75 and .25 have the mean .5 and the standard deviation .25.
    lines = section(built["paired_gap"]["README.md"].decode(), "Worked example").splitlines()
    assert {"value          0.5", "effect_size_z  2", "n              3"} <= set(lines)


def test_an_example_that_no_longer_holds_is_not_published(monkeypatch, tmp_path):
    example = '>>> result = {"value": 0.5}\n    >>> result["value"]\n    0.25'
    (tmp_path / "half.py").write_text(f'_KWARGS_DESCRIPTION = """\n    {example}\n"""\n')
    monkeypatch.setattr(spaces, "metric_path", lambda name: str(tmp_path))
    with pytest.raises(ValueError, match=r"half\.py: its example does not hold"):
        spaces.worked_example("half")


@pytest.mark.parametrize("name", metrics())
def test_a_card_names_every_input_and_every_key(name, built):
    card = built[name]["README.md"].decode()
    tree = ast.parse(built[name][f"{name}.py"].decode())
    compute = next(one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == "_compute")
    inputs = section(card, "Inputs")
    assert all(f"`{argument.arg}`" in inputs for argument in compute.args.args if argument.arg != "self")
    returned = section(card, "What it returns") + section(card, "Inputs")
    groups = "_(female|male|stigmatized|other|unspecified)$"
    several = "_LABEL" if name == "lexicon_mass" else "_GROUP"
    for key in spaces.worked_example(name):
        if key in ("female", "male") or (key.startswith("share_") and name == "answer_bias"):
            continue  # labels of the example's lexicon; a row "share_correct_pro ... share_other_anti"
        assert f"`{re.sub(groups, several, key)}`" in returned, key


def test_a_page_fetches_nothing_and_runs_nothing(built):
    for files in built.values():
        page = files["index.html"].decode()
        for tag, attributes in Tags(page).found:
            assert tag not in ("script", "link", "iframe", "img", "object", "form"), tag
            assert tag != "base" or attributes == {"target": "_blank"}
            assert not {"src", "srcset", "style", "xlink:href"} & set(attributes)
            assert not any(name.startswith("on") for name in attributes)
            assert tag == "a" or "href" not in attributes
        assert "url(" not in page
        assert "@import" not in page


def test_a_link_of_a_page_opens_outside_the_frame_that_shows_it(built):
    for name, files in built.items():
        found = Tags(files["index.html"].decode()).found
        assert ("base", {"target": "_blank"}) in found
        links = [attributes for tag, attributes in found if tag == "a"]
        assert links, name
        assert {one.get("rel") for one in links} == {"noopener"}, name


def test_a_page_holds_every_section_of_its_card(built):
    for name, files in built.items():
        titles = re.findall(r"^## (.+)$", files["README.md"].decode(), flags=re.MULTILINE)
        assert re.findall("<h2>(.+)</h2>", files["index.html"].decode()) == titles, name
        assert titles == SECTIONS, name


def test_nothing_of_a_card_becomes_markup_of_the_page():
    hostile = "<script>x()</script>"
    card = yaml.safe_dump({"title": hostile, "description": f'"{hostile}'})
    rows = f"| a{hostile} | meaning |\n| --- | --- |\n| 0 | b{hostile} |\n| 1 | <img src=x onerror=y()> |\n"
    body = f"{hostile} ![i](https://example.org/i.png) [k](javascript:z())\n\n## Anchor values\n\n{rows}\n"
    page = spaces.page(f"---\n{card}---\n\n# T\n\n{body}## {hostile}\n\n```\n{hostile}\n```\n", name="n", version="1")
    found = Tags(page).found
    assert not {"script", "img"} & {tag for tag, _ in found}
    assert [attributes for tag, attributes in found if tag == "a"] == [
        {"rel": "noopener", "href": "https://example.org/i.png"}
    ]
    # Title, heading, description (twice), text, code, axis (caption and table), row (drawing, its label and table).
    assert page.count("&lt;script&gt;x()") == 12


def test_the_number_line_puts_values_where_they_belong():
    table = (
        "| gap | meaning |\n| --- | --- |\n| -1 | low: x |\n| **0** | none: y |\n| 0.5 | half |\n| 1 | high: z |\n"
    )
    # The line runs from 8 to 412: a quarter of the way is 8 + 404 / 4 a unit of .5.
    assert spaces.marks("m", table) == [
        spaces.Mark("−1", "low", 8, False),
        spaces.Mark("0", "none", 210, True),
        spaces.Mark("0.5", "half", 311, False),
        spaces.Mark("1", "high", 412, False),
    ]


def test_every_metric_has_one_value_that_is_fair(built):
    for name in built:
        card = (Path(metric_path(name)) / "README.md").read_text()
        assert [one.fair for one in spaces.marks(name, section(card, "Anchor values"))].count(True) == 1, name


def test_a_card_without_anchor_values_is_refused():
    with pytest.raises(ValueError, match="card of m has 0 anchor values"):
        spaces.marks("m", "| key | meaning |\n| --- | --- |\n| a | b |\n")


@pytest.mark.parametrize(
    ("name", "namespace"), [("no_such", "lab"), ("flip_rate", 'x", trust="'), ("flip_rate", "a/b")]
)
def test_an_unknown_metric_or_a_strange_namespace_is_refused(name, namespace):
    with pytest.raises(UsageError):
        spaces.space_files(name, namespace=namespace, version=VERSION)


LOADING = """
import doctest, json, evaluate
from pathlib import Path
from swapbias.hub import spaces
from swapbias.studies import metric_path, metrics
found = {}
for name in metrics():
    text = spaces._documentation(Path(metric_path(name)) / f"{name}.py")
    code = "".join(one.source for one in doctest.DocTestParser().get_examples(text))
    from_hub = code.replace(f'swapbias.metric_path("{name}")', f'"lab/{name}", revision="9.8.7"')
    here, there = {}, {}
    exec(code, here)
    exec(from_hub, there)
    assert from_hub != code
    module = next(one for one in there.values() if isinstance(one, evaluate.Metric))
    found[name] = [repr(here["result"]), repr(there["result"]), type(module).__module__]
print(json.dumps(found))
"""


def test_a_published_metric_computes_what_the_package_computes(built, tmp_path):
    with LocalHub() as hub:
        hub.add_user("ann", token="hf_ann", orgs=("lab",))
        for index, (name, files) in enumerate(built.items()):
            hub.add_repo(
                "space", f"lab/{name}", files=files, private=index % 2 == 1, sdk="static", tags=[f"v{VERSION}"]
            )
            hub.push("space", f"lab/{name}", {f"{name}.py": b"raise SystemExit('not the tagged one')"})
        online = environment(hub, home=tmp_path / "hf", token="hf_ann")
        done = subprocess.run(
            [sys.executable, "-c", LOADING], env=online, cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert sorted(found) == metrics()
    for name, (here, there, module) in found.items():
        assert here == there, name
        assert f"lab--{name}" in module  # it is the downloaded one
