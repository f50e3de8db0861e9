"""Repeated fields and maps.

A container belongs to the message that made it.  Where that message does not yet count as set in
its own parent, _owner is the message, and the first change tells it so; otherwise _owner is None,
which keeps messages free of cycles.
"""
import os
import threading
from collections.abc import MutableMapping, MutableSequence, Sequence

import numpy as np

# Held while bytes become values: threads may read one message at the same time.  A forked process must find it free.
READING = threading.RLock()
os.register_at_fork(before=READING.acquire, after_in_parent=READING.release, after_in_child=READING.release)


class Container:
    """What all containers share."""
    __slots__ = ("_field", "_items", "_owner")

    def _changed(self):
        owner, self._owner = self._owner, None
        owner._attach()

    def __len__(self):
        return len(self._items)

    def __ne__(self, other):
        return not self == other

    __hash__ = None

    def __repr__(self):
        return repr(self._plain())

    def __deepcopy__(self, memo):
        return self._copy()

    def __reduce__(self):
        # A container by itself is what it would be as Python's own.
        kind = dict if isinstance(self, MutableMapping) else list
        return kind, (self._plain(),)


class RepeatedScalar(Container, MutableSequence):
    """A list of values of one type, kept in an array or a list."""
    __slots__ = ()

    def __init__(self, field, owner=None, items=None):
        self._field, self._owner = field, owner
        self._items = field.scalar.empty() if items is None else items

    def _plain(self):
        return list(self._items)

    def _copy(self):
        return RepeatedScalar(self._field, None, self._items[:])

    def __iter__(self):
        return iter(self._items)

    def __getitem__(self, index):
        found = self._items[index]
        return list(found) if isinstance(index, slice) else found

    def __setitem__(self, index, value):
        if isinstance(index, slice):
            value = self._field.scalar.check_many(value)
        else:
            value = self._field.scalar.check(value)
        self._items[index] = value
        if self._owner is not None:
            self._changed()

    def __delitem__(self, index):
        del self._items[index]
        if self._owner is not None:
            self._changed()

    def __contains__(self, value):
        return value in self._items

    def __eq__(self, other):
        if isinstance(other, RepeatedScalar):
            return self is other or self._plain() == other._plain()
        return self._plain() == other if isinstance(other, list) else NotImplemented

    def __array__(self, dtype=None):
        return np.array(self._items, dtype)

    def insert(self, index, value):
        self._items.insert(index, self._field.scalar.check(value))
        if self._owner is not None:
            self._changed()

    def append(self, value):
        self._items.append(self._field.scalar.check(value))
        if self._owner is not None:
            self._changed()

    def extend(self, values):
        if values is None:
            return
        if isinstance(values, RepeatedScalar):
            values = values._items
        self._items.extend(self._field.scalar.check_many(values))
        if self._owner is not None:
            self._changed()

    MergeFrom = extend

    def CopyFrom(self, other):
        if other is not self:
            self[:] = other

    def pop(self, index=-1):
        value = self._items[index]
        del self[index]
        return value

    def clear(self):
        del self[:]

    def sort(self, *args, **options):
        items = sorted(self._items, *args, **_sort_options(options))
        self._items[:] = self._field.scalar.check_many(items)

    def reverse(self):
        self._items.reverse()


def _sort_options(options):
    if "cmp" in options or "sort_function" in options:
        raise TypeError("sort takes key and reverse")
    return options


class RepeatedMessage(Container, Sequence):
    """A list of messages.  Messages are copied into it; what it gives out is its own."""
    __slots__ = ()

    def __init__(self, field, owner=None):
        self._field, self._owner, self._items = field, owner, []

    def _plain(self):
        return list(self._items)

    def _copy(self):
        new = RepeatedMessage(self._field)
        new._items = [m._clone() for m in self._items]
        return new

    def _checked(self, value):
        kind = self._field.message_class
        if type(value) is not kind:
            raise TypeError("Parameter to a list of %s must be of that class, but is %s"
                            % (kind.DESCRIPTOR.full_name, type(value).__name__))
        return value

    def __iter__(self):
        return iter(self._items)

    def __getitem__(self, index):
        return self._items[index]

    def __setitem__(self, index, value):
        raise TypeError("Items of a list of messages cannot be assigned: use add(), or CopyFrom() of an item")

    def __delitem__(self, index):
        del self._items[index]
        if self._owner is not None:
            self._changed()

    def __eq__(self, other):
        if isinstance(other, RepeatedMessage):
            return self._items == other._items
        return self._items == other if isinstance(other, list) else NotImplemented

    def add(self, **fields):
        item = self._field.message_class(**fields)
        self._items.append(item)
        if self._owner is not None:
            self._changed()
        return item

    def append(self, value):
        self.insert(len(self._items), value)

    def insert(self, index, value):
        self._items.insert(index, self._checked(value)._clone())
        if self._owner is not None:
            self._changed()

    def extend(self, values):
        self._items.extend([self._checked(v)._clone() for v in values])
        if self._owner is not None:
            self._changed()

    MergeFrom = extend

    def CopyFrom(self, other):
        if other is not self:
            copies = [self._checked(v)._clone() for v in other]
            self._items[:] = copies
            if self._owner is not None:
                self._changed()

    def pop(self, index=-1):
        value = self._items[index]
        del self[index]
        return value

    def remove(self, value):
        del self[self._items.index(value)]

    def clear(self):
        del self[:]

    def sort(self, *args, **options):
        self._items.sort(*args, **_sort_options(options))

    def reverse(self):
        self._items.reverse()


MutableSequence.register(RepeatedMessage)


class _Map(Container, MutableMapping):
    """Entries that were read as bytes are in _pending; _items is created on demand."""
    __slots__ = ("_pending", "_depth")

    def __init__(self, field, owner=None, depth=None):
        """depth: of entries that will come as bytes."""
        self._field, self._owner, self._depth = field, owner, depth
        if depth is None:
            self._pending, self._items = None, {}
        else:
            self._pending = []

    def __getattr__(self, name):
        if name != "_items":
            raise AttributeError("a map has no attribute %s" % name)
        with READING:
            if self._pending is not None:
                entry, depth = self._field.entry, self._depth
                self._items = dict([entry(data, depth) for data in self._pending])
                self._pending = None
            return self._items

    def _add_entry(self, data):
        if self._pending is not None:
            self._pending.append(data)
        else:
            key, value = self._field.entry(data, self._depth or 0)
            self._items[key] = value

    def _plain(self):
        return dict(self._items)

    def __iter__(self):
        return iter(self._items)

    def __contains__(self, key):
        return self._field.key.scalar.check(key) in self._items

    def __delitem__(self, key):
        del self._items[self._field.key.scalar.check(key)]
        if self._owner is not None:
            self._changed()

    def __eq__(self, other):
        if isinstance(other, _Map):
            return self._items == other._items
        return self._items == other if isinstance(other, dict) else NotImplemented

    def get(self, key, default=None):
        return self._items.get(self._field.key.scalar.check(key), default)

    def clear(self):
        self._items.clear()
        if self._owner is not None:
            self._changed()

    def GetEntryClass(self):
        return self._field.entry_class


class ScalarMap(_Map):
    """Reading a key that is not there puts the default there, as protobuf does."""
    __slots__ = ()

    def _copy(self):
        new = ScalarMap(self._field)
        new._items = dict(self._items)
        return new

    def __getitem__(self, key):
        key = self._field.key.scalar.check(key)
        if key not in self._items:
            self[key] = self._field.value.scalar.default
        return self._items[key]

    def __setitem__(self, key, value):
        self._items[self._field.key.scalar.check(key)] = self._field.value.scalar.check(value)
        if self._owner is not None:
            self._changed()

    def MergeFrom(self, other):
        self.update(other)


class MessageMap(_Map):
    """Reading a key that is not there puts an empty message there."""
    __slots__ = ()

    def _copy(self):
        new = MessageMap(self._field)
        new._items = {k: m._clone() for k, m in self._items.items()}
        return new

    def __getitem__(self, key):
        key = self._field.key.scalar.check(key)
        found = self._items.get(key)
        if found is None:
            found = self._items[key] = self._field.value.message_class()
            if self._owner is not None:
                self._changed()
        return found

    get_or_create = __getitem__

    def __setitem__(self, key, value):
        raise ValueError("Values of a map of messages cannot be assigned: use map[key].CopyFrom(value)")

    def MergeFrom(self, other):
        """Takes the other's messages, in place of those with the same keys."""
        check, copy_of = self._field.key.scalar.check, self._field.value.copy_of
        new = {check(key): copy_of(other[key]) for key in other}
        self._items.update(new)
        if self._owner is not None:
            self._changed()
