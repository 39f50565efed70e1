"""What a stopped or broken run leaves for the next one."""

import os
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import checkpoint
import learner
import rollout
import task


class Checkpoint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "not made yet")

    def test_none_without_one(self):
        self.assertIsNone(checkpoint.load(self.folder))

    def test_a_failed_save_leaves_the_earlier_one_and_no_rest(self):
        checkpoint.save(self.folder, 1, {"params": {"a": np.ones(3)}})
        with mock.patch("os.fsync", side_effect=OSError("disk full")), self.assertRaises(OSError):
            checkpoint.save(self.folder, 2, {"params": {"a": np.zeros(3)}})
        self.assertEqual(checkpoint.load(self.folder)[0], 1)
        self.assertEqual(os.listdir(self.folder), [checkpoint.NAME])

    def test_a_resumed_learner_goes_on_as_if_never_stopped(self):
        first = learner.Learner(seed=0)
        one_step(first, 0)
        checkpoint.save(self.folder, 1, first.state())
        step, state = checkpoint.load(self.folder)
        self.assertEqual(step, 1)
        second = learner.Learner(seed=0, state=state)
        self.assertEqual(one_step(first, 1), one_step(second, 1))


class Sharing(unittest.TestCase):
    def test_the_answers_do_not_depend_on_the_number_of_actors(self):
        params, prompts = learner.policy.init(0), task.draw_prompts(np.random.default_rng(0), 6)
        actor = rollout.Rollout()
        whole = actor.sample(params, prompts, 0, 4, (0, 7))["answer"]
        parts = [actor.sample(params, prompts[a:b], a, 4, (0, 7))["answer"] for a, b in ((0, 4), (4, 6))]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def one_step(actor, step):
    prompts = task.draw_prompts(np.random.default_rng(step), 8)
    return actor.update((0, step), rollout.Rollout().sample(actor.params_for_sampling(), prompts, 0, 4, (0, step)))[1]


if __name__ == "__main__":
    unittest.main()
