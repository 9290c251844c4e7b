"""Rules in Python behave like the built-in ones and are called in batches."""

import numpy as np
import pytest

import hostftl

SKEWED = "synth:zipf:size=4k,span=512m,count=600000,theta=0.99"


class SepBit(hostftl.Placement):
    """Wang et al., FAST 2022, algorithm 1."""

    classes = 6

    def __init__(self):
        self.lifespan = np.inf
        self.recent = []
        self.calls = 0

    def write(self, lba, age):
        self.calls += 1
        return (age == hostftl.NEVER) | (age >= self.lifespan)

    def copy(self, lba, age, source):
        self.calls += 1
        if source == 0:
            return np.full(len(lba), 2)
        return 3 + (age >= 4 * self.lifespan) + (age >= 16 * self.lifespan)

    def collected(self, source, lifespan):
        if source == 0:
            self.recent.append(lifespan)
            if len(self.recent) == 16:
                self.lifespan = np.mean(self.recent)
                self.recent.clear()


class Emptiest(hostftl.Collection):
    def choose(self, valid, age, classes):
        return np.argmin(valid)


def test_sepbit_in_python_is_the_built_in_one():
    rule = SepBit()
    own = hostftl.place(SKEWED, rule, rounds=2, segment=1024)
    built_in = hostftl.place(SKEWED, "sepbit", rounds=2, segment=1024)
    assert own.waf == pytest.approx(built_in.waf, rel=0.01)
    assert built_in.waf < 0.97 * hostftl.place(SKEWED, "two", rounds=2, segment=1024).waf
    assert rule.calls < own.written_blocks / 100, "never once for each write"


def test_a_rule_of_collection_is_asked_about_all_segments():
    greedy = hostftl.place(SKEWED, "two")
    assert hostftl.place(SKEWED, "two", Emptiest()).waf == pytest.approx(greedy.waf, rel=0.01)
    assert hostftl.place(SKEWED, "two", "fifo").waf > greedy.waf


def test_what_a_rule_does_wrong_is_said():
    class Beyond(hostftl.Placement):
        def write(self, lba, age):
            return np.ones(len(lba))

    class Raises(hostftl.Collection):
        def choose(self, valid, age, classes):
            raise KeyError("mine")

    with pytest.raises(hostftl.UsageError, match="below 1 for each of"):
        hostftl.place(SKEWED, Beyond())
    with pytest.raises(KeyError, match="mine"):
        hostftl.place(SKEWED, "none", Raises())
    with pytest.raises(hostftl.UsageError, match="none, two, sepbit"):
        hostftl.place(SKEWED, "three")
    with pytest.raises(hostftl.UsageError, match="spare"):
        hostftl.place(SKEWED, spare=0)
