"""slim.losses: those of contrib.losses."""

from ..losses import *  # noqa: F401, F403
