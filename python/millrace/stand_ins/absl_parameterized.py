"""absl.testing.parameterized: one test method for each of several sets of arguments."""
import functools
import unittest


class _Cases:
    def __init__(self, method, cases, named):
        self.method, self.cases, self.named = method, cases, named

    def tests(self):
        """(name, function) of each."""
        for i, case in enumerate(self.cases):
            label = str(i)
            if self.named:
                if isinstance(case, dict):
                    case = dict(case)
                    label = case.pop("testcase_name")
                else:
                    label, case = case[0], tuple(case[1:])
            name = self.method.__name__
            between = "_" if self.named and name.startswith("test_") and not label.startswith("_") else ""
            yield name + between + label, self._bound(case)

    def _bound(self, case):
        @functools.wraps(self.method)
        def test(self_, *args):
            if isinstance(case, dict):
                return self.method(self_, *args, **case)
            if isinstance(case, (tuple, list)):
                return self.method(self_, *case)
            return self.method(self_, case)
        return test


def _decorator(cases, named):
    if len(cases) == 1 and not isinstance(cases[0], (tuple, dict, str)) and hasattr(cases[0], "__iter__"):
        cases = list(cases[0])

    def decorate(target):
        if isinstance(target, type):
            for name, method in list(vars(target).items()):
                if name.startswith("test") and callable(method):
                    _replace(target, name, _Cases(method, cases, named))
            return target
        return _Cases(target, cases, named)
    return decorate


def parameters(*testcases):
    return _decorator(testcases, False)


def named_parameters(*testcases):
    return _decorator(testcases, True)


def _replace(cls, name, cases):
    delattr(cls, name)
    for new, f in cases.tests():
        setattr(cls, new, f)


class TestCase(unittest.TestCase):
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name, value in list(vars(cls).items()):
            if isinstance(value, _Cases):
                _replace(cls, name, value)
