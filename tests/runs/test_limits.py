"""The most prompts of an experiment are those of all its configs together."""

import pytest

from swapbias.runs import Settings, plan_tasks


@pytest.mark.parametrize("limit", [10, 40, 500])
def test_limit_holds_for_each_experiment(audits, real_masked_model, limit):
    """Each experiment of several studies reads at most the limit, and no study takes of another's."""
    studies = ("gendered_stigma", "social_distance")
    tasks, _ = plan_tasks(Settings(model=str(real_masked_model), studies=studies, limit=limit))
    counts = {task.name: task.n_prompts for task in tasks}
    assert [*counts] == ["gendered_stigma rq1", "gendered_stigma rq2", "social_distance attitude"]
    whole = {
        task.name: task
        for task in plan_tasks(Settings(model=str(real_masked_model), studies=studies))[0]
    }
    for name, count in counts.items():
        most = min(limit, whole[name].n_prompts)
        assert 0.8 * most <= count <= most


def test_limit_takes_the_same_conditions(audits, real_masked_model):
    """Of the four templates of one experiment a limit takes the same conditions, so that none stands for another."""
    settings = Settings(
        model=str(real_masked_model), studies=("social_distance:attitude",), limit=100
    )
    (task,) = plan_tasks(settings)[0]
    rows = task.rows[: task.n_prompts]
    read = {}
    for row in rows:
        if row["condition"] != "none":
            read.setdefault(row["template"], []).append((row["construct"], row["condition"]))
    assert len(read) == 4
    assert len(read["template1"]) == 24
    assert all(of_template == read["template1"] for of_template in read.values())


def test_limit_takes_a_pair_of_each_config(audits, real_masked_model):
    """Below the number of configs one pair of each is read."""
    settings = Settings(
        model=str(real_masked_model), studies=("social_distance:attitude",), limit=1
    )
    (task,) = plan_tasks(settings)[0]
    assert task.n_prompts == 5
