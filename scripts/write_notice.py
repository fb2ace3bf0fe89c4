"""Write NOTICE, the licences of what the package holds by corpus: python scripts/write_notice.py."""

from pathlib import Path

from swapbias.studies import corpora, corpus_dir, load_corpus, read_table
from swapbias.studies.tables import outside_sources

ROOT = Path(__file__).resolve().parent.parent
BEGINNING = """swapbias
Copyright The swapbias authors

Code, and what this project wrote, are under Apache-2.0 (LICENSE). A table may be under another licence, or be made
from what others wrote. Below are the licence of each corpus and every outside source, with its licence and its use.
"reproduce", "check", "fit" and "tests" mean that a source is read and not included. A source that states no licence
is quoted at most, in single words, sentences and numbers: no licence of this project covers those, and rows that are
made of its files are not published.

The texts of MIT, Unicode-3.0 and LicenseRef-WordNet are in files of these names. All others: https://spdx.org/licenses/
"""


def notice() -> str:
    """Return the text of NOTICE."""
    return "\n".join([BEGINNING, *map(corpus_notice, corpora())])


def corpus_notice(name: str) -> str:
    """Return the part of NOTICE about a corpus: its licence, and of each source address, licence, notice and use."""
    table = corpus_dir(name) / "notices.csv"
    rows = read_table(table, ("repository", "notice")) if table.exists() else []
    notices = {row["repository"]: row["notice"] for row in rows}
    uses: dict[tuple[str, str, str], dict[str, None]] = {}  # an ordered set
    for source in outside_sources(name):
        key = (source["repository"], source["commit"], source["licence"])
        uses.setdefault(key, {})[source["used_for"]] = None
    lines = [f"{name}: {load_corpus(name).licence}"]
    for (repository, commit, licence), used_for in uses.items():
        lines.append(f"- {repository} {commit[:12]}".rstrip() + f": {licence}")
        lines += [f"  {notices[repository]}"] if repository in notices else []
        lines += [f"  {use}" for use in used_for]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    (ROOT / "NOTICE").write_text(notice(), encoding="utf-8")
