"""The algorithm, term by term, without a cluster: `python -m unittest discover tests` in examples/grpo."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import policy  # before jax: it limits jax's threads

import jax
import jax.numpy as jnp
import numpy as np

import adam
import objective
import task


class Reward(unittest.TestCase):
    def test_counts_the_places_that_are_right(self):
        prompts = np.array([[3, 1, 2, 0, task.SORT]] * 3)
        answers = np.array([[0, 1, 2, 3], [0, 1, 3, 2], [9, 9, 9, 9]])
        np.testing.assert_allclose(task.reward(prompts, answers), [1, 0.5, 0])

    def test_random_answers_get_about_a_tenth(self):
        rng = np.random.default_rng(0)
        prompts = task.draw_prompts(rng, 4000)
        self.assertAlmostEqual(task.reward(prompts, rng.integers(0, 10, (4000, 4))).mean(), 0.1, delta=0.01)


class Advantages(unittest.TestCase):
    def test_each_group_has_mean_0_and_deviation_1(self):
        rewards = np.random.default_rng(0).random((8, 16), np.float32)
        advantages = objective.advantages(rewards)
        np.testing.assert_allclose(advantages.mean(axis=1), 0, atol=1e-5)
        np.testing.assert_allclose(advantages.std(axis=1), 1, atol=1e-5)

    def test_a_group_is_compared_only_with_itself(self):
        advantages = objective.advantages(np.array([[0.0, 0.25], [0.75, 1.0]]))
        np.testing.assert_allclose(advantages, [[-1, 1], [-1, 1]])

    def test_a_group_of_equals_teaches_nothing(self):
        for value in (0.0, 0.7, 1.0):
            np.testing.assert_array_equal(objective.advantages(np.full((1, 16), value, np.float32)), 0)


class Clipping(unittest.TestCase):
    def gain_and_slope(self, ratio, advantage):
        def gain(new):
            return objective.clipped_gain(new, jnp.zeros((1, 1)), jnp.array([advantage]))[0, 0]

        value, slope = jax.value_and_grad(gain)(jnp.log(jnp.array([[ratio]])))
        return float(value), float(slope[0, 0])

    def test_inside_the_clip_it_is_ratio_times_advantage(self):
        for ratio in (0.9, 1.0, 1.1):
            value, slope = self.gain_and_slope(ratio, 2.0)
            self.assertAlmostEqual(value, 2 * ratio, places=5)
            self.assertAlmostEqual(slope, 2 * ratio, places=5)

    def test_a_good_answer_is_pushed_no_further_up(self):
        value, slope = self.gain_and_slope(1.5, 1.0)
        self.assertAlmostEqual(value, 1 + objective.CLIP, places=5)
        self.assertEqual(slope, 0)

    def test_a_bad_answer_is_pushed_no_further_down(self):
        value, slope = self.gain_and_slope(0.5, -1.0)
        self.assertAlmostEqual(value, -(1 - objective.CLIP), places=5)
        self.assertEqual(slope, 0)

    def test_a_move_the_wrong_way_is_always_pulled_back(self):
        self.assertGreater(self.gain_and_slope(0.5, 1.0)[1], 0)
        self.assertLess(self.gain_and_slope(1.5, -1.0)[1], 0)


class KL(unittest.TestCase):
    def test_is_never_negative_and_0_for_equals(self):
        new, reference = -np.random.default_rng(0).exponential(2, (2, 10000)).astype(np.float32)
        self.assertGreaterEqual(float(objective.kl_estimate(new, reference).min()), -1e-6)
        np.testing.assert_array_equal(objective.kl_estimate(new, new), 0)

    def test_its_mean_is_the_true_divergence(self):
        rng = np.random.default_rng(0)
        p, q = rng.dirichlet(np.ones(11), 2)
        tokens = rng.choice(11, 200_000, p=p)
        estimate = objective.kl_estimate(np.log(p)[tokens], np.log(q)[tokens]).mean()
        self.assertAlmostEqual(float(estimate), float((p * np.log(p / q)).sum()), delta=0.05)


class Policy(unittest.TestCase):
    def setUp(self):
        self.params = policy.init(0)
        self.prompts = task.draw_prompts(np.random.default_rng(0), 8)
        keys = jax.random.split(jax.random.key(0), 8)
        self.answers, self.old = jax.jit(policy.sample)(self.params, self.prompts, keys)

    def test_sampling_and_training_see_the_same_probabilities(self):
        """So the ratio of a fresh sample is 1."""
        again = jax.jit(policy.log_probs)(self.params, self.prompts, self.answers)
        np.testing.assert_allclose(again, self.old, atol=1e-4)

    def test_a_step_makes_a_rewarded_answer_more_probable(self):
        advantage = jnp.array([1.0, -1.0] * 4)

        @jax.jit
        def change(params):
            def loss(params):
                new = policy.log_probs(params, self.prompts, self.answers)
                return objective.loss(new, self.old, self.old, advantage)[0]

            params, _ = adam.step(params, adam.init(params), jax.grad(loss)(params))
            return (policy.log_probs(params, self.prompts, self.answers) - self.old).sum(axis=1)

        self.assertGreater(float((change(self.params) * advantage).mean()), 0)


if __name__ == "__main__":
    unittest.main()
