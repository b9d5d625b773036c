"""Intervals against closed forms."""

import math

import pytest
import torch

from openjepa.evaluation import bootstrap


def test_the_interval_of_an_accuracy_is_the_binomial_one() -> None:
    values = torch.zeros(1, 1000)
    values[0, :300] = 1
    low, high = bootstrap.interval(values, num_samples=4000)
    margin = 1.96 * math.sqrt(0.3 * 0.7 / 1000)
    assert (low, high) == pytest.approx((0.3 - margin, 0.3 + margin), abs=0.003)


def test_the_interval_is_the_same_every_time_and_leaves_the_global_generator_alone() -> None:
    values, state = torch.rand(2, 50).round(), torch.get_rng_state()
    assert bootstrap.interval(values) == bootstrap.interval(values)
    assert torch.equal(state, torch.get_rng_state())


def test_a_perfect_score_is_sure() -> None:
    assert bootstrap.interval(torch.ones(1, 40)) == (1.0, 1.0)


def test_seeds_that_disagree_widen_the_interval() -> None:
    agreeing = torch.zeros(4, 400)
    agreeing[:, :200] = 1
    disagreeing = torch.zeros(4, 400)
    disagreeing[0], disagreeing[1] = 1, 1
    widths = [high - low for low, high in (bootstrap.interval(values) for values in (agreeing, disagreeing))]
    assert agreeing.mean() == disagreeing.mean() and widths[1] > 3 * widths[0]


def test_the_paired_difference_of_two_equal_classifiers_is_exactly_nothing() -> None:
    """Their own intervals would overlap however many images there are."""
    is_right = torch.rand(1, 200).round()
    assert bootstrap.interval(is_right - is_right) == (0.0, 0.0)
