"""`datasets` and `evaluate`, each in a process of its own, against the local Hub."""

import io
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq

from tests.conftest import ROOT
from tests.hub.clients import environment


def run(hub, tmp_path, code):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(hub, home=tmp_path / "other-home", token="hf_alice"),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_datasets_loads_and_streams_a_tagged_repository(hub, tmp_path):
    table = io.BytesIO()
    pq.write_table(pa.table({"text": ["one", "two"], "n": [1, 2]}), table)
    card = "---\nconfigs:\n- config_name: cfg\n  data_files:\n  - split: test\n    path: cfg/test-*.parquet\n---\n"
    files = {"README.md": card.encode(), "cfg/test-00000.parquet": table.getvalue()}
    hub.add_repo("dataset", "alice/d", files=files, private=True, tags=("v1.0.0",))
    hub.push("dataset", "alice/d", {"README.md": b"changed"}, delete=("cfg/test-00000.parquet",))
    code = (
        "import datasets\n"
        "for streaming in (False, True):\n"
        "    data = datasets.load_dataset('alice/d', 'cfg', revision='v1.0.0', split='test', streaming=streaming)\n"
        "    print([(row['text'], row['n']) for row in data])\n"
    )
    assert run(hub, tmp_path, code) == ["[('one', 1), ('two', 2)]"] * 2


def test_evaluate_loads_a_metric_from_a_tagged_static_space(hub, tmp_path):
    folder = ROOT / "metrics" / "paired_gap"
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    hub.add_repo("space", "alice/paired_gap", files=files, sdk="static", tags=("v0.1.0",))
    hub.push("space", "alice/paired_gap", {"paired_gap.py": b"raise SystemExit('not the tagged file')\n"})
    code = (
        "import evaluate\n"
        "gap = evaluate.load('alice/paired_gap', revision='0.1.0')\n"
        "result = gap.compute(predictions=[0.75, 0.25, 1.0, 0.25], groups=['f', 'm'] * 2,\n"
        "                     pair_ids=['a', 'a', 'b', 'b'], reference_group='m')\n"
        "print(result['value'])\n"
    )
    # the mean of 0.75 - 0.25 and 1.0 - 0.25
    assert run(hub, tmp_path, code) == ["0.625"]
