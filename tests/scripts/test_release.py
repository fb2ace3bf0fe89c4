"""What a release says of itself: the interpreters that it takes and is tried on."""

import re
import tomllib

from packaging.specifiers import SpecifierSet

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_no_later_python_is_refused_and_each_that_is_named_is_tried():
    takes = SpecifierSet(PROJECT["requires-python"])
    assert {one.operator for one in takes} == {">="}
    named = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if "Python :: 3." in text]
    tried = re.search(r"^PYTHONS\s*\?=(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert named == ["3.11", *tried]  # `make test` is run by the first
    assert all(version in takes for version in (*named, "3.15"))
