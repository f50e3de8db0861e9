"""The base classes of google.protobuf.message, where that package is installed.

Programs write `except message.DecodeError` and `isinstance(m, message.Message)`, so ours derive from them.  Only an
installed package counts: millrace.stand_ins answers for a missing one with the very classes that are made here.
"""
from importlib.machinery import PathFinder


def _is_installed():
    google = PathFinder.find_spec("google")
    places = google.submodule_search_locations if google else None
    return places is not None and PathFinder.find_spec("google.protobuf", places) is not None


if _is_installed():
    from google.protobuf.message import DecodeError, EncodeError, Error, Message
else:
    Message, Error = object, Exception

    class DecodeError(Error):
        pass

    class EncodeError(Error):
        pass
