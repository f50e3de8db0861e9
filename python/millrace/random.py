"""tf.random: random tensors under short names."""

from . import lazy as _lazy

__getattr__ = _lazy.selection(
    __name__, "all_candidate_sampler fixed_unigram_candidate_sampler get_seed learned_unigram_candidate_sampler "
    "log_uniform_candidate_sampler multinomial set_random_seed stateless_multinomial stateless_truncated_normal "
    "truncated_normal "
    "uniform_candidate_sampler",
    dict(gamma="random_gamma", normal="random_normal", poisson="random_poisson", shuffle="random_shuffle",
         uniform="random_uniform", stateless_normal="stateless_random_normal", stateless_uniform="stateless_random_uniform"))


def categorical(logits, num_samples, dtype=None, seed=None, name=None):
    """Draws num_samples classes for each row of logits, the unnormalized log probabilities."""
    from .ops import random
    return random.multinomial(logits, num_samples, seed, name, dtype)


def stateless_categorical(logits, num_samples, seed, dtype="int64", name=None):
    """Draws classes for each row of logits; the result depends only on the arguments, and seed is two integers."""
    from .ops import random
    return random.stateless_multinomial(logits, num_samples, seed, dtype, name)
