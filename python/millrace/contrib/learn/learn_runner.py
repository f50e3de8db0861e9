"""tf.contrib.learn.learn_runner."""

from .experiment import Experiment, run
