"""What the tests of sharing share: two audits of one small model, a local Hub with models, and the call itself."""

import hashlib
import zlib
from functools import cache

from swapbias.hub.client import Hub
from swapbias.hub.shared_runs import COMMIT, PULL_REQUEST, ShareOptions, bundle_run, share_run as share
from swapbias.runs.plan import Settings
from swapbias.studies.catalogue import config_rows

MODEL = "tests.hub.sharing_runs:scored"
ASKED = Settings(model=MODEL, studies=("occupation_sentiment:sentences",))
README = "---\nlicense: mit   # mine\ntags: [a,  b]\n---\n# Model\n\nBy alice.\n"
EVAL = ".eval_results/swapbias.yaml"
GAP = {"she": 0.1}  # what `scored` takes off sentences about women
WEIGHTS = {"model.safetensors": b"w"}  # on the Hub, of what `scored` stands for
COMMITS = r"/api/models/.*/commit/"


packed = cache(bundle_run)


def of_weights(run, weights=WEIGHTS):
    """The run as if its model had been read from a folder of these weights."""
    manifest = run.manifest()
    held = {name: hashlib.sha256(content).hexdigest() for name, content in weights.items()}
    run.write_manifest({**manifest, "models": [{**one, "weights": held} for one in manifest["models"]]})
    return run


@cache
def about_women():
    return {row["text"] for row in config_rows("occupation_sentiment", "sentences") if row["group"] == "female"}


@cache
def higher():
    """By how much the sentences of each pair score higher than others: what varies is measured."""
    steps = {"occupation_sentiment:sentences": 0.01, "social_distance:sentiment": -0.1}  # the latter has labels alone
    return {
        row["text"]: step * (zlib.crc32(row["pair_id"].encode()) % 5)
        for config, step in steps.items()
        for row in config_rows(*config.split(":"))
    }


def scored(texts):
    """A sentiment system that scores every sentence about a woman lower than the same one about a man."""
    return [0.6 + higher().get(text, 0.0) - GAP["she"] * (text in about_women()) for text in texts]


def put(run, results="alice/audits", **more):
    return share(run, ShareOptions(results=results, **more), Hub(), say=lambda sentence: None)


def own(run, **more):
    return put(run, model="alice/m", how=COMMIT, audited=MODEL, **more)


def propose(run, model="bob/m", **more):
    return put(
        run, **{"results": "alice/open", "public": True, "how": PULL_REQUEST, "audited": MODEL, **more}, model=model
    )


def statuses(done):
    return [one.status for one in done]
