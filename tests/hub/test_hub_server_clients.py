"""`datasets` and `evaluate`, each in a process of its own, against the local Hub."""

import io
import json
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias.swapping.parts import MANIFEST
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


SWAP = """
import json, sys
from swapbias.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["swapbias", "swap", *arguments]
    try:
        main()
    except SystemExit as ended:
        print("ended", ended.code or 0, file=sys.stderr)
"""


def test_swap_asks_for_the_split_of_a_dataset_with_several_and_names_them(hub, tmp_path):
    for name, splits in (("two", ("train", "validation")), ("one", ("held_out",))):
        card = "---\nconfigs:\n- config_name: default\n  data_files:\n"
        card += "".join(f"  - split: {one}\n    path: {one}.csv\n" for one in splits) + "---\n"
        texts = {f"{one}.csv": f"text\nHe is in {one}.\n".encode() for one in splits}
        hub.add_repo("dataset", f"alice/{name}", files={"README.md": card.encode(), **texts})
    asked = [
        ["alice/two", "--out", "a"],
        ["alice/two", "--out", "b", "--split", "validation"],
        ["alice/one", "--out", "c"],
        ["alice/two", "--out", "d", "--split", "test"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", SWAP, json.dumps(asked)],
        env=environment(hub, home=tmp_path / "other-home", token="hf_alice"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.findall("ended (.)", done.stderr) == ["2", "0", "0", "1"]
    assert "swapbias: alice/two has the splits train, validation. Choose one with --split.\n" in done.stderr
    assert "['train', 'validation']" in done.stderr  # where one is named that there is not
    assert not (tmp_path / "a").exists()
    for out, split in (("b", "validation"), ("c", "held_out")):
        assert pq.read_table(tmp_path / out / "data")["text"].to_pylist() == [f"She is in {split}."]
        assert f"split: {split}" in (tmp_path / out / "README.md").read_text()
        assert json.loads((tmp_path / out / MANIFEST).read_text())["input"]["split"] == split
