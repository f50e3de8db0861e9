"""tf.contrib.seq2seq: decoders in loops, with helpers that choose their inputs, attention, and beam search."""

from .attention import *  # noqa: F403
from .beam_search import *  # noqa: F403
from .decoder import *  # noqa: F403
from .helper import *  # noqa: F403
from .loss import *  # noqa: F403


def __getattr__(name):
    raise AttributeError("module 'tf.contrib.seq2seq' has no attribute %r" % name)
