"""Packages that scripts of TensorFlow 1.x import because it brought them along: six, absl and google.protobuf.

Where one is installed, it is used: this finder is asked last.  Names that numpy has dropped since are put back too.
"""
import sys

from .. import aliases

_OURS = {
    "six": "millrace.stand_ins.six",
    "six.moves": "millrace.stand_ins.six_moves",
    "absl.app": "millrace.app",
    "absl.flags": "millrace.flags",
    "absl.logging": "millrace.stand_ins.absl_logging",
    "absl.testing.absltest": "millrace.test",
    "absl.testing.parameterized": "millrace.stand_ins.absl_parameterized",
}
_PACKAGES = ("absl", "absl.testing", "google", "google.protobuf")


class _Finder(aliases.Finder):
    """Finds modules that no other finder has."""

    def plan(self, name):
        if name in _OURS:
            return "module", _OURS[name]
        if name in _PACKAGES:
            return "made", aliases.Package(name)
        if name.startswith("six.moves."):
            from . import six_moves
            target = six_moves.module_name(name[len("six.moves."):])
            return target and ("module", target)
        if name.startswith("google.protobuf."):
            from .. import protos
            made = protos.google_modules().get(name)
            return made and ("made" if made.__spec__ is None else "module", made if made.__spec__ is None else made.__name__)
        return None

    def missing(self, name):
        return None


def _restore_names_of_numpy():
    """numpy 1.24 has no np.float and its kin any more, which scripts of that time are full of."""
    import numpy
    for name, kind in (("bool", bool), ("int", int), ("float", float), ("complex", complex), ("object", object), ("str", str)):
        if name not in vars(numpy):
            setattr(numpy, name, kind)


def install():
    _restore_names_of_numpy()
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.append(_Finder())
