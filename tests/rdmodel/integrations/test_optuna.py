"""Trials for Optuna, checked with Optuna where it is installed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rdmodel.integrations import optuna
from tests.support.rankings import SIX, SIZES


def sizes_of(tile) -> tuple[int, int]:
    return tile["TI"], tile["TJ"]


def test_the_best_tiles_are_enqueued_in_order():
    enqueued = []
    study = SimpleNamespace(enqueue_trial=lambda params, **options: enqueued.append((params, options)))
    assert optuna.enqueue(study, SIX, top=2, names={"TI": "tile_i"}) == 3
    assert [params for params, _ in enqueued] == [
        {"tile_i": 32, "TJ": 32},
        {"tile_i": 16, "TJ": 64},
        {"tile_i": 16, "TJ": 32},
    ]
    assert enqueued[1][1] == {"user_attrs": {"rdmodel_rank": 2, "rdmodel_value": 104.0}, "skip_if_exists": True}


def test_the_first_trials_of_a_study_are_the_best_tiles():
    package = pytest.importorskip("optuna")
    package.logging.set_verbosity(package.logging.ERROR)
    study = package.create_study(sampler=package.samplers.RandomSampler(seed=0))
    assert optuna.enqueue(study, SIX, top=4) == 4
    assert optuna.enqueue(study, SIX, top=1) == 1  # is there already

    def objective(trial):
        return trial.suggest_categorical("TI", SIZES["TI"]) * trial.suggest_int("TJ", 32, 64, step=32)

    study.optimize(objective, n_trials=6)
    assert [sizes_of(trial.params) for trial in study.trials[:4]] == [sizes_of(one.tile) for one in SIX.tiles[:4]]
    assert len(study.trials) == 6
    assert study.trials[0].user_attrs == {"rdmodel_rank": 1, "rdmodel_value": 100.0}
    assert optuna.enqueue(study, SIX, top=4) == 4
    assert len(study.trials) == 6
