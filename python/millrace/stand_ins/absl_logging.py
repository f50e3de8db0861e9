"""absl.logging, by the same logger as tf.logging."""
from ..logging import *  # noqa: F401, F403
from ..logging import WARN, get_logger, get_verbosity

WARNING = WARN


def exception(msg, *args):
    """An error, with the exception that is being handled."""
    get_logger().error(msg, *args, exc_info=True)


def level_debug():
    return get_verbosity() <= 10


def vlog_is_on(level):
    return level_debug()


def set_stderrthreshold(s):
    """Everything goes to standard error."""


def use_absl_handler():
    """There is one handler only."""


def get_absl_logger():
    return get_logger()


