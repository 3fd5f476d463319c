from dataclasses import replace

import pytest
import scale
from scale import Bucket, Cluster, Work, longest

from electra.config.load import load_config
from electra.recipes.flops import count_parameters, on_meta

PLAIN = Cluster(
    8, link=100.0, card=10.0, link_hop=0.1, card_hop=1.0, launch=0.5, slowdown=0.0, spread=0.0, host_hop=0.0
)
ONE = Work(seconds=13.0, forward_share=0.25, optimizer_seconds=1.0, buckets=[Bucket(400.0, 1.0)], small_sums=0)


def test_a_sum_within_a_machine_is_a_ring_over_its_links():
    assert PLAIN.sum_seconds(400.0, 1) == 0
    assert PLAIN.sum_seconds(400.0, 8) == pytest.approx(0.5 + 14 * 0.1 + 2 * 7 / 8 * 400 / 100)


def test_machines_have_the_bandwidth_of_all_their_cards_and_the_latency_of_a_ring_or_a_tree():
    assert PLAIN.sum_seconds(400.0, 16) == pytest.approx(0.5 + (1.4 + 2) + 2 * 15 / 16 * 400 / 80)  # a tree
    assert replace(PLAIN, card=1000.0).sum_seconds(400.0, 16) == pytest.approx(0.5 + 3.4 + 2 * 15 / 16 * 400 / 100)
    assert PLAIN.sum_seconds(0.0, 512) == pytest.approx(0.5 + 1.4 + 2 * 6)
    slow_links = replace(PLAIN, link_hop=10.0, card_hop=0.0)
    assert slow_links.sum_seconds(0.0, 16) == pytest.approx(0.5 + 140)


def test_a_sum_that_begins_at_the_end_is_added_to_the_step_and_an_earlier_one_is_hidden():
    seconds = PLAIN.sum_seconds(400.0, 8)  # 8.9, and the backward pass takes 9
    assert ONE.on(1, PLAIN) == 13
    assert ONE.on(8, PLAIN) == pytest.approx(13 + seconds)
    assert replace(ONE, buckets=[Bucket(400.0, 0.0)]).on(8, PLAIN) == pytest.approx(13)
    assert replace(ONE, buckets=[Bucket(400.0, 0.5)]).on(8, PLAIN) == pytest.approx(13 - 4.5 + seconds)
    assert replace(ONE, buckets=[Bucket(400.0, 0.0)] * 2).on(8, PLAIN) == pytest.approx(13 - 9 + 2 * seconds)
    assert ONE.efficiency(8, PLAIN) == pytest.approx(13 / (13 + seconds))


def test_other_costs_are_added():
    cluster = replace(PLAIN, launch=0.0, link_hop=0.0)
    assert replace(ONE, buckets=[], small_sums=2).on(8, PLAIN) == pytest.approx(13 + 2 * PLAIN.sum_seconds(8, 8))
    assert replace(ONE, buckets=[]).on(8, replace(cluster, spread=0.1)) == pytest.approx(13 * (1 + 0.1 * longest(8)))
    assert replace(ONE, buckets=[]).on(8, replace(cluster, host_hop=2.0)) == 28
    hidden = replace(ONE, buckets=[Bucket(400.0, 0.0)])
    assert hidden.on(8, replace(cluster, slowdown=0.1)) == pytest.approx(13 + 0.1 * 7)


def test_the_longest_of_many_is_that_of_normal_numbers():
    assert longest(1) == 0
    assert longest(2) == pytest.approx(0.5642, abs=0.03)  # 1 / sqrt(pi)
    assert longest(100) == pytest.approx(2.508, abs=0.02)


def test_base_scales_as_predicted():
    """The targets of the project; the step of one H200 is that of the ledger."""
    config = load_config("base", ["train.length=512", "model.max_length=512"])
    work = scale.work_of(config, rows=128, seconds=0.1103, optimizer_seconds=0.0015)
    joint = count_parameters(on_meta(config.model, config.objective))["joint"]
    assert sum(bucket.size for bucket in work.buckets) == pytest.approx(4 * joint, rel=1e-3)
    known = [bucket.known for bucket in work.buckets]
    assert known == sorted(known)
    assert known[-1] == 1
    assert len(set(known)) > 4  # three groups of layers, the generator, the embeddings
    assert 0.30 < work.forward_share < 0.36
    efficiencies = [work.efficiency(count, Cluster()) for count in (8, 64, 512)]
    assert efficiencies == sorted(efficiencies, reverse=True)
    assert efficiencies[0] >= 0.97
    assert efficiencies[-1] >= 0.90
