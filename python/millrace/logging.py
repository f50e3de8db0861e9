"""tf.logging: messages on standard error by Python's logger "tensorflow", warnings and worse unless set_verbosity says
otherwise.

    INFO:tensorflow:loss = 0.25, step = 100
"""
import logging as _logging
import os
import sys
import time

from logging import DEBUG, ERROR, FATAL, INFO, WARN  # noqa: F401

__all__ = ["DEBUG", "ERROR", "FATAL", "INFO", "WARN", "TaskLevelStatusMessage", "debug", "error", "fatal", "flush",
           "get_verbosity", "info", "log", "log_every_n", "log_first_n", "log_if", "set_verbosity", "vlog", "warn", "warning"]

_LETTERS = {DEBUG: "D", INFO: "I", WARN: "W", ERROR: "E", FATAL: "F"}
_NAMES = {FATAL: "FATAL", ERROR: "ERROR", WARN: "WARN", INFO: "INFO", DEBUG: "DEBUG"}
_logger = None
_seen = {}  # (file, line) -> how often log_every_n was called there


def get_logger():
    """Returns the logger "tensorflow" of Python's logging."""
    global _logger
    if _logger is None:
        logger = _logging.getLogger("tensorflow")
        if logger.level == _logging.NOTSET:
            logger.setLevel(INFO if _is_interactive() else WARN)
        if not _logging.getLogger().handlers and not logger.handlers:
            # Where the program shows messages by itself, they go its way alone.
            handler = _logging.StreamHandler(sys.stdout if _is_interactive() else sys.stderr)
            handler.setFormatter(_logging.Formatter(_logging.BASIC_FORMAT))
            logger.addHandler(handler)
        _logger = logger
    return _logger


def _is_interactive():
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def log(level, msg, *args, **kwargs):
    """Logs a message at a level; the other arguments are those of Python's logging."""
    get_logger().log(level, msg, *args, **kwargs)


def debug(msg, *args, **kwargs):
    """Logs a message at level DEBUG."""
    get_logger().debug(msg, *args, **kwargs)


def info(msg, *args, **kwargs):
    """Logs a message at level INFO."""
    get_logger().info(msg, *args, **kwargs)


def warning(msg, *args, **kwargs):
    """Logs a message at level WARN."""
    get_logger().warning(msg, *args, **kwargs)


def warn(msg, *args, **kwargs):
    """Logs a message at level WARN."""
    get_logger().warning(msg, *args, **kwargs)


def error(msg, *args, **kwargs):
    """Logs a message at level ERROR."""
    get_logger().error(msg, *args, **kwargs)


def fatal(msg, *args, **kwargs):
    """A message of the highest level.  The program goes on."""
    get_logger().fatal(msg, *args, **kwargs)


def vlog(level, msg, *args, **kwargs):
    """Logs a message at a level."""
    get_logger().log(level, msg, *args, **kwargs)


def TaskLevelStatusMessage(msg):  # noqa: N802
    """Logs a message at level ERROR."""
    error(msg)


def log_if(level, msg, condition, *args):
    """Logs a message if the condition holds."""
    if condition:
        vlog(level, msg, *args)


def _times_before():
    """How often the caller's caller has been here already."""
    frame = sys._getframe(2)
    key = frame.f_code.co_filename, frame.f_lineno
    n = _seen.get(key, 0)
    _seen[key] = n + 1
    return n


def log_every_n(level, msg, n, *args):
    """The first message at this place, and each n-th after it."""
    log_if(level, msg, _times_before() % n == 0, *args)


def log_first_n(level, msg, n, *args):
    """Logs a message the first n times that this line is reached."""
    log_if(level, msg, _times_before() < n, *args)


def get_verbosity():
    """Returns the lowest level that is logged."""
    return get_logger().getEffectiveLevel()


def set_verbosity(v):
    """The least level that is shown; a name or a number."""
    get_logger().setLevel(v)


def flush():
    """Passes all messages on to where they are written."""
    for handler in get_logger().handlers:
        handler.flush()


def google2_log_prefix(level, timestamp=None, file_and_line=None):
    """The prefix of the library's own messages: `I1116 13:30:00.123456 4242 file.py:12] `."""
    now = time.time() if timestamp is None else timestamp
    t = time.localtime(now)
    if file_and_line is None:
        frame = sys._getframe(1)
        file_and_line = frame.f_code.co_filename, frame.f_lineno
    return "%c%02d%02d %02d:%02d:%02d.%06d %5d %s:%d] " % (
        _LETTERS.get(level, "I"), t.tm_mon, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, int(1e6 * (now % 1)), os.getpid(),
        os.path.basename(file_and_line[0]), file_and_line[1])


def level_name(level):
    """Returns the name of a level."""
    return _NAMES.get(level, str(level))
