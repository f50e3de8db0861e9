"""Policy gradients with a reward that is not in the graph: one step in two parts.

    millrace python examples/python/policy_gradient.py

The policy sees a cue and draws an action.  The first part of the step gives the actions to Python, where the reward is found;
the second part goes on with it to the gradient, without computing the policy again: tf.Session.partial_run.
"""
import numpy as np

import millrace as tf

import options

N_CUES, N_ACTIONS, BATCH, STEPS = 4, 3, 64, 300
random = np.random.RandomState(1)
best = np.array([2, 0, 1, 2])  # the action that each cue calls for; only the reward knows


def reward_of(cues, actions):
    """1 for the right action; nobody could differentiate this."""
    return np.where(best[cues] == actions, 1.0, 0.0)


options.read()
tf.set_random_seed(1)
cues = tf.placeholder(tf.int32, [BATCH], name="cues")
rewards = tf.placeholder(tf.float32, [BATCH], name="rewards")
logits = tf.matmul(tf.one_hot(cues, N_CUES), tf.Variable(tf.zeros([N_CUES, N_ACTIONS]), name="policy"))
actions = tf.squeeze(tf.multinomial(logits, 1, seed=2), 1)
log_probability = -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)
advantage = rewards - tf.reduce_mean(rewards)
train = tf.train.GradientDescentOptimizer(2.0).minimize(-tf.reduce_mean(log_probability * advantage))

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(STEPS + 1):
        seen = random.randint(N_CUES, size=BATCH)
        run = sess.partial_run_setup([actions, train], [cues, rewards])
        chosen = sess.partial_run(run, actions, feed_dict={cues: seen})
        reward = reward_of(seen, chosen)
        sess.partial_run(run, train, feed_dict={rewards: reward})
        if step % 50 == 0:
            print("step %d mean reward %.3f" % (step, reward.mean()))
print("mean reward %.3f" % reward.mean())
