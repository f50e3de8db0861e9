"""The extension module, under a name inside the package."""

from _millrace import *  # noqa: F401,F403
