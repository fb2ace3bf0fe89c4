"""The frame of the benchmarks, with workloads of known seconds: nothing here is timed."""

import json
import re
from dataclasses import replace

import pytest

from benchmarks import frame, measuring, pages, table
from benchmarks.frame import Prepared, Side, Workload, measure
from tests.conftest import ROOT

MACHINE = {
    "cpu": "a cpu",
    "cores": 2,
    "system": "Linux",
    "python": "3.11",
    "versions": {"numpy": "2"},
    "date": "d",
}


class Work:
    """A clock that only work moves on, and what ran in which order."""

    def __init__(self):
        self.now = 0.0
        self.order = []

    def side(self, name, seconds, *, share=1.0, limit=None):
        taken = iter(seconds)

        def run():
            self.order.append(name)
            self.now += next(taken)
            return name.upper()

        return Side(name, run, share, limit)

    def clock(self):
        return self.now


@pytest.fixture(autouse=True)
def unswept(monkeypatch):
    """Sweeping the memory of all tests before each side takes long, and nothing here is timed."""
    monkeypatch.setattr(frame.gc, "collect", lambda: 0)


def equal(outputs):
    return f"equal: {sorted(outputs.values())}"


def finished(ours, peer, goals, **options):
    """The result of a workload whose sides take these seconds, warm-up first."""
    work = Work()
    prepared = Prepared(
        (work.side("ours", ours, **options),), (work.side("peer", peer),), equal, size="3 prompts"
    )
    workload = Workload("fake", "Fake", goals, lambda scale: prepared)
    measured = measure(prepared, repeat=len(ours) - 1, clock=work.clock)
    return table.result(workload, prepared, measured, scale=1.0, peaks={}, machine=MACHINE)


def test_turns_after_a_warm_up():
    """The sides run in turns after a warm-up of each."""
    work = Work()
    prepared = Prepared(
        (work.side("a", [1] * 4),), (work.side("b", [1] * 4), work.side("c", [1] * 4)), equal
    )
    measure(prepared, repeat=3, clock=work.clock)
    assert work.order == ["a", "b", "c"] * 4
    # A tenth of the work in 3 s is all of it in 30 s.
    work = Work()
    prepared = Prepared(
        (work.side("ours", [1] * 3),), (work.side("peer", [3] * 3, share=0.1),), equal
    )
    assert measure(prepared, repeat=1, clock=work.clock).seconds["peer"] == pytest.approx((30,))

    def unequal(outputs):
        raise ValueError("ours and peer differ")

    with pytest.raises(ValueError, match="differ"):
        measure(replace(prepared, check=unequal), repeat=1, clock=work.clock)
    assert work.order == ["ours", "peer"] * 3  # the warm-up alone


def test_median_of_rounds():
    """The median of the rounds counts, without the warm-up."""
    # Rounds of ours: 1, 9, 2 (median 2), of the peer: 30, 10, 20 (median 20): ten times faster. The first run of
    # each, 100 s, is the warm-up.
    one = finished([100, 1, 9, 2], [100, 30, 10, 20], {("ours", "peer"): 9.0})
    assert [timed.seconds for timed in one.timed] == [2, 20]
    assert one.timed[0].rounds == (1, 9, 2)
    assert (one.compared[0].ratio, one.compared[0].met) == (10, "yes")
    one = finished([0, 5.0], [0, 20.0], {("ours", "peer"): 4.5})  # 4 times
    assert one.compared[0].met == "no"
    assert "| 4.0 | 4.0 to 4.0 | 4.5 | no |" in table.page([one])


def test_limit_of_the_hardware():
    """The limit of the hardware gives the fraction that is reached."""
    # The hardware needs 1.5 s, we needed 2 s: 75 %. The peer has no limit of its own.
    one = finished([0, 2.0], [0, 4.0], {}, limit=lambda: (1.5, "products alone"))
    assert [timed.fraction for timed in one.timed] == [0.75, None]
    assert "75%" in table.page([one])
    least = iter([3.0, 1.0, 2.0])
    one = finished([0, 2.0, 2.0], [0, 4.0, 4.0], {}, limit=lambda: (next(least), "products alone"))
    assert (one.timed[0].limit_seconds, one.timed[0].fraction) == (1.0, 0.5)


def test_least_favourable_run(tmp_path):
    """All of several runs are kept, and the least favourable one is reported."""

    # Ours 2, 4 and 3 s, the peer 20, 20 and 60: 10, 5 and 20 times. Of 1.5 s at least 75, 37.5 and 50 % is reached.
    def run(ours, peer):
        return finished(
            [0, ours], [0, peer], {("ours", "peer"): 6.0}, limit=lambda: (1.5, "products alone")
        )

    runs = [run(2.0, 20.0), run(4.0, 20.0), run(3.0, 60.0)]
    one = table.merged(runs)
    assert (one.compared[0].ratio, one.compared[0].met) == (
        5,
        "no",
    )  # though the median of the runs is 10
    assert one.timed[0].fraction == 0.375
    assert [round(each.ratio("ours", "peer")) for each in one.runs] == [10, 5, 20]
    assert "| ours | 38% | peer | 5.0 | 5.0 to 20.0 | 6 | no | 4 / 20 | 1.5 | 3 |" in table.page(
        [one]
    )
    table.write(one, tmp_path)
    assert table.read(tmp_path) == [one]
    kept = json.loads((tmp_path / "fake.json").read_text())
    assert [each["timed"][0]["seconds"] for each in kept["runs"]] == [2, 4, 3]
    del kept["runs"]  # a file of the time when there was one run
    (tmp_path / "fake.json").write_text(json.dumps(kept))
    (alone,) = table.read(tmp_path)
    assert (len(alone.runs), alone.timed) == (1, one.timed)
    with pytest.raises(ValueError, match="runs of fake"):
        table.merged([one, replace(one, size="4 prompts")])


def test_ratios_of_the_readme():
    """The ratios in the README are those of the page of results; ``python -m benchmarks NAME``
    writes both."""
    rows = {}
    title = ""
    for line in (frame.FOLDER / "results.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and len(cells := line[2:-2].split(" | ")) >= 10:
            rows[(title := cells[0] or title), cells[1], cells[3]] = cells[4]
    wanted = [
        ("Gender at a mask, RoBERTa base", "swapbias", "fill-mask pipeline"),
        ("Gender at a mask, RoBERTa base", "swapbias", "pipeline, batches of 32"),
        ("Sentiment of sentences, DistilBERT", "swapbias", "text-classification pipeline"),
        (
            "Swapping notes in memory, one core",
            "swapbias, the paper's terms",
            "one regex, the paper's 11 terms",
        ),
    ]
    ratios_printed = (
        (ROOT / "README.md")
        .read_text(encoding="utf-8")
        .partition("## Speed and truth")[2]
        .split("\n\n")[1]
    )
    assert re.findall(r"\b(\d+\.\d) times", ratios_printed) == [rows[pair] for pair in wanted]


def rows_of(title):
    """Rows of a table of the page of results, by the beginning of its heading."""
    page = (frame.FOLDER / "results.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {title}")[2].partition("\n## ")[0]
    return [line[2:-2].split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]


def shares(title, place, effects=""):
    """Percentages of a column, from the least to the most, of rows with such effects."""
    chosen = [row for row in rows_of(title) if any(cell.startswith(effects) for cell in row)]
    return sorted(100 * float(row[place]) for row in chosen)


def test_error_rates_on_the_pages():
    """The rates of errors on the pages are those of the page of results."""
    shipped = [
        one for place in (3, 5) for one in shares("Audits of every shipped experiment", place)
    ]
    null = "Audits of models without a gap:"
    gates = "Gates: how often"
    normal = shares(null, 3, "normal")
    skewed = shares(null, 3, "lognormal")
    passed = shares(gates, 3, "lognormal")
    failed = [shares(gates, 4, effects)[-1] for effects in ("normal", "lognormal")]
    grown = [100 * float(row[4]) for row in rows_of("Gates beside a baseline") if row[1] != row[2]]
    null_readings = [row for row in rows_of("Slopes, panels of judges") if row[3] == "none"]
    readings = {
        effects: sorted(100 * float(row[5]) for row in null_readings if row[2] == effects)
        for effects in ("normal", "lognormal")
    }
    for page, text in (
        (
            "docs/verdicts.md",
            f"False positives are {readings['normal'][0]:.1f} to {readings['normal'][-1]:.1f} % with normal "
            f"effects and {readings['lognormal'][0]:.1f} to {readings['lognormal'][-1]:.1f} % with lognormal",
        ),
        (
            "README.md",
            f"false positives are {min(shipped):.1f} to {max(shipped):.1f} % at a nominal 5 %",
        ),
        (
            "docs/verdicts.md",
            f"At a nominal 5 %, false positives are {normal[0]:.1f} to {normal[-1]:.1f} % with normal effects",
        ),
        (
            "docs/verdicts.md",
            f"they are {skewed[0]:.1f} to {skewed[-2]:.1f} %, and {skewed[-1]:.1f} % if six pairs",
        ),
        (
            "docs/verdicts.md",
            f"also rare ones, false positives are at most {shares(null, 3, '0/1')[-1]:.1f} %",
        ),
        (
            "docs/gate.md",
            f"passed at most {shares(gates, 3, 'normal')[-1]:.1f} % with normal effects",
        ),
        ("docs/gate.md", f"With lognormal effects it passed at most {passed[-1]:.1f} %"),
        ("docs/gate.md", f"failed at most {failed[0]:.1f} % and {failed[1]:.1f} %"),
        ("docs/gate.md", f"at most {max(grown):.1f} % of gaps that had grown by the margin"),
    ):
        assert text in " ".join((ROOT / page).read_text(encoding="utf-8").split()), text


def test_tables_of_swappers():
    """The tables of swappers are those of the page of results."""
    rows = {
        (row[0].removeprefix("clinical_swaps, "), re.sub(r" \(to .*", "", row[1])): row[2:5]
        for row in rows_of("Whose gender")
    }
    parts = {"all": 100, "three fourths": 75, "half": 50, "a fourth": 25}
    patient = "swapbias, the patient"
    page = (ROOT / "docs" / "swapping.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| .*\.\d{3}.*$", page, re.MULTILINE)
    assert len(found) == 10
    for line in found:
        name, *cells = line[2:-2].split(" | ")
        name = name.replace("`everyone`", "swapbias, everyone").replace("`patient`", patient)
        name = f"{patient}, the {parts[name]}% of least doubt" if name in parts else name
        known = [*rows["test", name], *rows["real reports", name][:2]]
        assert [
            one.replace("0.", ".")[: len(cell)] for one, cell in zip(known, cells, strict=True)
        ] == cells, name


@pytest.mark.parametrize(
    ("page", "column", "what"),
    [
        ("verdicts", pages.CALLED, "called a gap without one"),
        ("gate", pages.PASSED, "passed at the margin"),
    ],
    ids=["verdicts", "gate"],
)
def test_tables_of_own_prompts(page, column, what):
    """The tables of prompts of a user are those of the page of results."""
    written = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert pages.edge_table(rows_of("The inference at its edges"), column, what) in written


def test_table_of_designs():
    """The table of a user's prompts has a row for each design and a column for each kind of
    effects."""
    rows = [
        ("templates", "4", "normal", "2,000", ".045"),
        ("templates", "4", "heavy", "2,000", ".031"),
        ("templates", "4", "lognormal", "2,000", ".100"),
        ("few affected", "20", "1 of 20", "2,000", ".385"),
        ("rates", "8", "normal", "500", ""),
    ]
    assert pages.edge_table(rows, 4, "passed").splitlines()[2:] == [
        "| templates: 4 | 4.5 % | 10.0 % |"
    ]


def test_rates_of_own_prompts():
    """The rates of a user's prompts on the pages are those of the page of results."""
    rows = rows_of("The inference at its edges")
    one_study = [row for row in rows if not row[0].startswith("five own studies")]

    def largest(effects, column):
        return max(
            100 * float(row[column]) for row in one_study if row[2] == effects and row[column]
        )

    def only(design, column):
        return [f"{100 * float(row[column]):.1f}" for row in rows if row[0].startswith(design)]

    called = [largest(effects, pages.CALLED) for effects in ("normal", "lognormal")]
    passed = [largest(effects, pages.PASSED) for effects in ("normal", "lognormal")]
    five = only("five own studies", pages.CALLED)
    few, moved = (
        only(design, pages.PASSED)[0] for design in ("1 of 20 templates", "1 of 10 words")
    )
    for page, sentence in (
        ("verdicts", f"normal effects at most {called[0]:.1f} % are called a gap"),
        ("verdicts", f"with them it is at most {called[1]:.1f} %"),
        (
            "verdicts",
            f"called a gap in {five[0]} % with normal effects and in {five[1]} % with lognormal effects",
        ),
        (
            "gate",
            f"at most {passed[0]:.1f} % with normal effects and {passed[1]:.1f} % with lognormal ones",
        ),
        ("gate", f"a gate passes {few} % of studies with 20 templates"),
        ("gate", f"of which 1 in 10 moves, it passes {moved} %"),
    ):
        written = " ".join((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").split())
        assert sentence in written


def test_rates_by_the_clock_of_the_sides(monkeypatch):
    """Where sides are timed by the processor's seconds, so are the rates that limit them."""
    monkeypatch.setattr(measuring, "_clock", measuring._clock)
    ticks = iter(range(100))
    monkeypatch.setattr(measuring.time, "process_time", lambda: float(next(ticks)))
    measuring.count_processor_time()
    assert measuring.gemm_rate([(2, 3, 5)], tries=1) == 2 * 2 * 3 * 5  # one second a try
    assert measuring.memcpy_rate(1_000, tries=2) == 1_000
