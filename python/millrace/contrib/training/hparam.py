"""Hyperparameters: named values with types, which a text can change.

    hparams = HParams(learning_rate=0.1, layers=[64, 32], activation="relu")
    hparams.parse("learning_rate=0.2,layers=[128,64],layers[1]=16")

A value keeps the type, and a list the kind of its elements, that it was made with.
"""
import json
import numbers
import re

# name, [index], then a list in brackets or anything up to the next comma.
_ASSIGNMENT = re.compile(r"""
    (?P<name>[a-zA-Z][\w\.]*)               # variable name: "var" or "x"
    (\[\s*(?P<index>\d+)\s*\])?\s*=\s*
    ((?P<value>[^,\[]*)|\[(?P<list>[^\]]*)\])($|,\s*)""", re.VERBOSE)


def _parsed(name, kind, text):
    """The value that a text means."""
    if kind is bool:
        if text.lower() in ("true", "1", "false", "0"):
            return text.lower() in ("true", "1")
        raise ValueError("Could not parse boolean '%s' for hparam '%s'" % (text, name))
    try:
        return text if kind is type(None) else kind(text)
    except ValueError:
        raise ValueError("Could not parse hparam '%s' of type '%s' with value '%s'" % (name, kind.__name__, text)) from None


def _cast(name, kind, value):
    """A value of the kind of what it replaces.  Numbers, texts and booleans do not become each other, nor floats integers."""
    if kind is type(None) or value is None:
        return value
    same = (issubclass(kind, (str, bytes)) == isinstance(value, (str, bytes))
            and issubclass(kind, bool) == isinstance(value, bool) and
            (not issubclass(kind, numbers.Integral) or isinstance(value, numbers.Integral)) and
            (not issubclass(kind, numbers.Number) or isinstance(value, numbers.Number)))
    if not same:
        raise ValueError("Could not cast hparam '%s' of type '%s' from value %r" % (name, kind, value))
    return value if isinstance(value, kind) else kind(value)


def parse_values(values, type_map, ignore_unknown=False):
    """{name: value}, where name[i]=v gives {name: {i: v}}, of a text "a=1,b=[2,3],c[0]=4" by the types of names."""
    results, at = {}, 0
    while at < len(values):
        m = _ASSIGNMENT.match(values, at)
        if not m:
            raise ValueError("Malformed hyperparameter value: %s" % values[at:])
        at = m.end()
        name = m.group("name")
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError("Unknown hyperparameter type for %s" % name)
        if m.group("index") is not None:
            if m.group("list") is not None:
                raise ValueError("Assignment of a list to a list index.")
            chosen = results.setdefault(name, {})
            if not isinstance(chosen, dict):
                raise ValueError("Multiple assignments to variable '%s'" % name)
            if int(m.group("index")) in chosen:
                raise ValueError("Multiple assignments to variable '%s[%s]'" % (name, m.group("index")))
            chosen[int(m.group("index"))] = _parsed(name, type_map[name], m.group("value"))
            continue
        if name in results:
            raise ValueError("Multiple assignments to variable '%s'" % name)
        if m.group("list") is not None:
            results[name] = [_parsed(name, type_map[name], v.strip()) for v in m.group("list").split(",") if v.strip()]
        else:
            results[name] = _parsed(name, type_map[name], m.group("value"))
    return results


class HParams:
    """A set of hyperparameters, which are its attributes."""

    def __init__(self, hparam_def=None, model_structure=None, **kwargs):
        if hparam_def is not None:
            raise NotImplementedError("HParams(hparam_def=...)")
        self._hparam_types, self._model_structure = {}, model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name, value):
        """Adds a parameter with a value."""
        if getattr(self, name, None) is not None:
            raise ValueError("Hyperparameter name is reserved: %s" % name)
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError("Multi-valued hyperparameters cannot be empty: %s" % name)
            self._hparam_types[name] = type(value[0]), True
        else:
            self._hparam_types[name] = type(value), False
        setattr(self, name, value)

    def set_hparam(self, name, value):
        """Changes a parameter; the value must have the type of the old one."""
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list) != is_list:
            raise ValueError("Must %s a list for multi-valued parameter: %s." % ("pass" if is_list else "not pass", name))
        setattr(self, name, [_cast(name, kind, v) for v in value] if is_list else _cast(name, kind, value))

    def del_hparam(self, name):
        """Removes a parameter."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values):
        """Changes parameters as a text says; an unknown name or a value of another type is a ValueError."""
        changes = parse_values(values, {name: kind for name, (kind, _) in self._hparam_types.items()})
        for name, value in changes.items():
            if isinstance(value, dict):  # some elements of a list
                now = list(getattr(self, name))
                for i, v in value.items():
                    now[i] = v
                value = now
            self.set_hparam(name, value)
        return self

    def override_from_dict(self, values_dict):
        """Changes parameters to the values of a dict, and returns this object."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    set_from_map = override_from_dict

    def parse_json(self, values_json):
        """Changes parameters to the values of a JSON object, and returns this object."""
        return self.override_from_dict(json.loads(values_json))

    def values(self):
        """Returns {name: value}."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def to_json(self, indent=None, separators=None, sort_keys=False):
        """Returns the parameters as JSON; functions are left out."""
        plain = {k: v for k, v in self.values().items() if not callable(v)}
        return json.dumps(plain, indent=indent, separators=separators, sort_keys=sort_keys)

    def get(self, key, default=None):
        """Returns a parameter, or default if there is none of this name."""
        if key in self._hparam_types:
            kind, is_list = self._hparam_types[key]
            if default is not None:
                if is_list != isinstance(default, list):
                    raise ValueError("The value of hparam '%s' does not have the type of its default %r" % (key, default))
                for value in default if is_list else [default]:
                    _cast(key, kind, value)
            return getattr(self, key)
        return default

    def get_model_structure(self):
        """Returns what set_model_structure set."""
        return self._model_structure

    def set_model_structure(self, model_structure):
        """Sets a description of the model."""
        self._model_structure = model_structure

    def __contains__(self, key):
        return key in self._hparam_types

    def __str__(self):
        """What parse() reads."""
        return ",".join("%s=%s" % item for item in self.values().items())

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, sorted(self.values().items()))
