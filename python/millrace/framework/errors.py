"""Errors of the library as exceptions: one class a code, with the operation's name and where Python made it."""

import re

import _millrace as _core

OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED = range(8)
RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = range(8, 15)
DATA_LOSS, UNAUTHENTICATED = 15, 16


class InaccessibleTensorError(ValueError):
    """A tensor is used where it cannot be reached."""


class OperatorNotAllowedInGraphError(TypeError):
    """Python asks a tensor for what only a value has: its truth, or its elements one by one."""


class OpError(Exception):
    """The base of errors of a step."""

    def __init__(self, node_def, op, message, error_code):
        super().__init__()
        self._node_def, self._op, self._message, self._error_code = node_def, op, message, error_code

    @property
    def message(self):
        """The message of the error."""
        return self._message

    @property
    def op(self):
        """The operation that failed, where it is known and of the session's graph; else None."""
        return self._op

    @property
    def node_def(self):
        """The NodeDef of the operation that failed, or None."""
        return self._op.node_def if self._op is not None and self._node_def is None else self._node_def

    @property
    def error_code(self):
        """The code of the error, as tf.errors.NOT_FOUND."""
        return self._error_code

    def __str__(self):
        if self._op is None:
            return self._message
        lines = [self._message, "", "The operation %r was made at:" % self._op.name]
        lines += ["  File \"%s\", line %d, in %s" % frame[:3] for frame in self._op.traceback[-8:]]
        return "\n".join(lines)

    def __reduce__(self):
        return self.__class__, (None, None, self._message) + (() if type(self) is not OpError else (self._error_code,))


def _error_class(name, code, doc):
    def init(self, node_def, op, message):
        OpError.__init__(self, node_def, op, message, code)
    return type(name, (OpError,), {"__init__": init, "__doc__": doc, "__module__": __name__})


CancelledError = _error_class("CancelledError", CANCELLED, "The step was cancelled.")
UnknownError = _error_class("UnknownError", UNKNOWN, "An unknown error.")
InvalidArgumentError = _error_class("InvalidArgumentError", INVALID_ARGUMENT,
                                    "An operation got an argument or input that is not valid.")
DeadlineExceededError = _error_class("DeadlineExceededError", DEADLINE_EXCEEDED, "A step did not end before its deadline.")
NotFoundError = _error_class("NotFoundError", NOT_FOUND, "A file, a variable or something else does not exist.")
AlreadyExistsError = _error_class("AlreadyExistsError", ALREADY_EXISTS, "The object to be created already exists.")
PermissionDeniedError = _error_class("PermissionDeniedError", PERMISSION_DENIED, "The caller may not do this.")
ResourceExhaustedError = _error_class("ResourceExhaustedError", RESOURCE_EXHAUSTED, "Memory or another resource is exhausted.")
FailedPreconditionError = _error_class("FailedPreconditionError", FAILED_PRECONDITION,
                                       "The state of the system does not allow it; a variable may not be initialized.")
AbortedError = _error_class("AbortedError", ABORTED, "The step was aborted, usually because of another step.")
OutOfRangeError = _error_class("OutOfRangeError", OUT_OF_RANGE, "The input is exhausted.")
UnimplementedError = _error_class("UnimplementedError", UNIMPLEMENTED,
                                  "The operation is not implemented for these inputs.")
InternalError = _error_class("InternalError", INTERNAL, "An internal error of the library.")
UnavailableError = _error_class("UnavailableError", UNAVAILABLE, "A task cannot be reached.")
DataLossError = _error_class("DataLossError", DATA_LOSS, "A file is damaged.")
UnauthenticatedError = _error_class("UnauthenticatedError", UNAUTHENTICATED, "The caller could not be authenticated.")

_CLASSES = [CancelledError, UnknownError, InvalidArgumentError, DeadlineExceededError, NotFoundError, AlreadyExistsError,
            PermissionDeniedError, ResourceExhaustedError, FailedPreconditionError, AbortedError, OutOfRangeError,
            UnimplementedError, InternalError, UnavailableError, DataLossError, UnauthenticatedError]


def exception_type_from_error_code(error_code):
    """Returns the class of errors with this code; KeyError if there is none."""
    if not 0 < error_code <= len(_CLASSES):
        raise KeyError(error_code)
    return _CLASSES[error_code - 1]


def error_code_from_exception_type(cls):
    """Returns the code of a class of errors."""
    return _CLASSES.index(cls) + 1


def make(code, message):
    """The exception for a code of the C API."""
    if 0 < code <= len(_CLASSES):
        return _CLASSES[code - 1](None, None, message)
    return OpError(None, None, message, code)


_NAMED = re.compile(r"\[\[\{?\{?node ([^}\]\s(]+)|\[\[Node: ([^\s=]+)")


def with_operation(error, graph):
    """Tells the error which operation of the graph its message names."""
    found = _NAMED.search(error.message or "")
    name = found and (found.group(1) or found.group(2))
    if name and graph.has_op(name):
        error._op = graph.op(name)
    return error


class raise_exception_on_not_ok_status:  # noqa: N801 -- TensorFlow's name
    """For programs that use it around calls of the C API; here such calls raise by themselves."""

    def __enter__(self):
        return None

    def __exit__(self, *unused):
        return False


_core.set_error_maker(make)
