"""What the tests of sharing share: two audits of one small model, a local Hub with models, and the call itself."""

import zlib
from functools import cache

from swapbias.audit.plan import Settings
from swapbias.hub.bundle import pack
from swapbias.hub.client import Hub
from swapbias.hub.proposals import COMMIT, PULL_REQUEST
from swapbias.hub.share import Wanted, share_run as share
from swapbias.studies.catalogue import config_rows

MODEL = "tests.hub.sharing_runs:scored"
ASKED = Settings(model=MODEL, studies=("occupation_sentiment:sentences",))
README = "---\nlicense: mit   # mine\ntags: [a,  b]\n---\n# Model\n\nBy alice.\n"
EVAL = ".eval_results/swapbias.yaml"
GAP = {"she": 0.1}  # what `scored` takes off sentences about women
COMMITS = r"/api/models/.*/commit/"


packed = cache(pack)


@cache
def about_women():
    return {row["text"] for row in config_rows("occupation_sentiment", "sentences") if row["group"] == "female"}


@cache
def higher():
    """By how much each sentence of a pair scores higher than others: what varies gets a figure."""
    rows = config_rows("occupation_sentiment", "sentences")
    return {row["text"]: 0.01 * (zlib.crc32(row["pair_id"].encode()) % 5) for row in rows}


def scored(texts):
    """A sentiment system that scores every sentence about a woman lower than the same one about a man."""
    return [0.6 + higher().get(text, 0.0) - GAP["she"] * (text in about_women()) for text in texts]


def put(run, results="alice/audits", **more):
    return share(run, Wanted(results=results, **more), Hub(), say=lambda sentence: None)


def own(run, **more):
    return put(run, model="alice/m", how=COMMIT, audited=MODEL, **more)


def propose(run, model="bob/m", **more):
    return put(
        run, **{"results": "alice/open", "public": True, "how": PULL_REQUEST, "audited": MODEL, **more}, model=model
    )


def statuses(done):
    return [one.status for one in done]
