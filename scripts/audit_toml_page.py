"""Write docs/audit_toml.md, every key of audit.toml, from the fields: python scripts/audit_toml_page.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swapbias.models import LoadOptions, Setting
from swapbias.runs import Settings, setting_classes

PAGE = Path(__file__).resolve().parent.parent / "docs" / "audit_toml.md"
EXAMPLE = """models = ["roberta-large", "./my-classifier"]
studies = ["gendered_stigma:rq1", "occupation_sentiment"]
margin = 0.05

[load]
batch_size = 32
"""
INTRODUCTION = f"""# Keys of audit.toml

`swapbias audit audit.toml` reads models, studies and settings from one file. The file can have any name that ends in
`.toml`. Every key is optional.

```toml
{EXAMPLE}```

All errors in the file are listed at once, each with its line. Paths are relative to the folder where the command
runs, paths of models to the folder of the file. Some settings are for the command line only: `--out`, `--trust`,
`--dry-run`, and `-M` settings for an engine or a store. The variable of a key (`-M api-key-env`) is one of them
too. The manifest of a run has the same tables and keys below `settings`. In `swapbias.audit` each key is an
argument with its name on the command line: `batch_size=32`.
"""
TITLES = {
    "": "At the top of the file",
    LoadOptions.key: "`[load]`: how the model is loaded",
    "notes": "`[notes]`: clinical notes",
    "chat": "`[chat]`: a chat model",
}
HEAD = "| key | value | default | command line | meaning |\n| --- | --- | --- | --- | --- |"
BY_HAND = {"model": "MODEL", "studies": "--study"}  # as the command line names them
SEVERAL = "Several models, each audited into a run of its own; in place of `model`."
MODELS = f"| `models` | a list of texts | none | `MODEL ...` | {SEVERAL} |"


def page() -> str:
    """Return the page."""
    parts = [INTRODUCTION]
    for options in setting_classes():
        if options is Settings or options.key in Settings().saved():
            rows = list(_rows(options))
            if options is Settings:
                rows.insert(0, MODELS)
            title = TITLES.get(options.key, f"`[{options.key}]`")
            parts.append("\n".join([f"## {title}", "", HEAD, *rows, ""]))
    return "\n".join(parts)


def _rows(options: Any) -> Iterator[str]:
    """Yield the row of each setting that a file can have."""
    for setting in options.settings():
        if setting.use.unsaved:
            continue
        written = f"`{setting.written}`"
        if setting.use.elsewhere:
            written = BY_HAND.get(setting.name, written)
        name = f"`{setting.name}`"
        cells = (name, setting.expected, _default(setting), written, setting.help)
        yield f"| {' | '.join(cells)} |"


def _default(setting: Setting) -> str:
    """Return the value where nothing is set, as TOML writes it."""
    if setting.default in (None, (), ""):
        return "none"
    if isinstance(setting.default, bool):
        return f"`{str(setting.default).lower()}`"
    if isinstance(setting.default, str):
        return f'`"{setting.default}"`'
    return f"`{setting.default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
