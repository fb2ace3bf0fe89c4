"""Write ``docs/study_toml.md``: every key of ``study.toml``, from the fields of the classes that read it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from swapbias.studies.declared import literals, sections_of
from swapbias.studies.declared_values import COMPUTED, OF_PACKAGE
from swapbias.studies.experiment import Experiment, OwnStudy, Study

PAGE = Path(__file__).resolve().parent.parent / "docs" / "study_toml.md"
_EXAMPLES = {
    "kind": '["classifier", "chat"]', "reading": '"options"', "answers": '["0=Yes", "1=No", "=It depends"]',
    "ask": '"Who is best for [job]?"', "rubric": '{question = "How warm is it?", options = ["0=Warm", "1=Cold"]}',
    "groups": '["female"]', "reference": '"male"', "measure": '"paired_gap"', "margin": "0.1",
    "unit": '{name = "stars", range = [0, 5]}', "random": '["pair"]', "fixed": '["topic"]', "shared_fills": "true",
    "slices": '["condition"]', "decisions": "[0.5]", "quantiles": "[0.1, 0.5, 0.9]",
    "categories": '{sex = "gender", race = "ethnicity"}',
}  # fmt: skip
_TOP = "At the top"
_OWN = """\
# Keys of study.toml

A study is declared in sections. Your own needs `name` and `title`, and in a folder `reference`; every other key has a
default. Keys at the top go above the first section:

```toml
name = "loans"
title = "Loans by name"
kind = ["classifier", "chat"]

[reads]
answers = ["0=Yes", "1=No"]

[compares]
reference = "male"
margin = 0.1

[design]
fixed = ["topic"]
```

Every fault is listed at once with its line, of several prompts of one line the first: `swapbias study check my_study`
lists them.
"""
_PACKAGE = """\
# Studies of the package

Studies of the package are declared in the same sections, `[experiments.compares]` and so on, below an
`[[experiments]]` for each question. They have these keys as well, and each states all that decides a verdict. An
experiment that is `like` an earlier one takes what that shows and its words. Licence and
version are in `corpus.toml`.
"""


def page() -> str:
    """The text of the page."""
    parts = [_OWN, *_tables(OwnStudy, of_package=False), _PACKAGE]
    parts += [_table("At the top", Study, of_package=True, but=OwnStudy)]
    parts += [_table("Of an experiment", Experiment, of_package=True, but=OwnStudy)]
    for name, section in sections_of(Experiment).items():
        parts.append(_table(f"[experiments.{name}]", section, of_package=True))
        parts += [
            _table(f"{key} of [experiments.{name}]", inner, of_package=False)
            for key, inner in sections_of(section).items()
        ]
    return "\n".join(filter(None, parts))


def _tables(of_class: type[BaseModel], *, of_package: bool) -> Iterator[str]:
    yield _table(_TOP, of_class, of_package=of_package)
    for name, section in sections_of(of_class).items():
        yield _table(f"[{name}]", section, of_package=of_package)


def _table(
    title: str, of_class: type[BaseModel], *, of_package: bool, but: type[BaseModel] | None = None
) -> str:
    sections = sections_of(of_class)
    beside = but.model_fields if but else {}
    rows = [
        f"| `{name}` | {_default(name, info)} | {_meaning(info)}{_choices(info)}{_example(name, of_package)} |"
        for name, info in of_class.model_fields.items()
        if name not in beside
        and not _is_marked(info, COMPUTED)
        and (name not in sections or (of_package and _is_marked(info, OF_PACKAGE)))
        and (but is not None or _is_marked(info, OF_PACKAGE) == of_package)
        and name != "experiments"
    ]
    if not rows:
        return ""
    return "\n".join(
        [f"## {title}\n", "| key | default | meaning |", "| --- | --- | --- |", *rows, ""]
    )


def _is_marked(info: FieldInfo, mark: str) -> bool:
    extra = info.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get(mark))


def _meaning(info: FieldInfo) -> str:
    return re.sub(r"``([^`]*)``", r"`\1`", " ".join((info.description or "").split())).replace(
        "|", "\\|"
    )


def _choices(info: FieldInfo) -> str:
    choices = [choice for choice in literals(info.annotation) if choice]
    return f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""


def _example(name: str, of_package: bool) -> str:
    return f" Example: `{name} = {_EXAMPLES[name]}`" if name in _EXAMPLES and not of_package else ""


def _default(name: str, info: FieldInfo) -> str:
    default: Any = info.default
    if name in ("name", "title"):
        return "needed"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if default in ("", (), {}, None) or isinstance(default, BaseModel):
        return ""
    text = getattr(default, "name", default)
    return (
        f'`"{text}"`'
        if isinstance(text, str)
        else f"`{list(text) if isinstance(text, tuple) else text}`".replace("'", '"')
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
