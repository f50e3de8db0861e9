"""Parts of a package that are imported when they are first asked for, so that importing the package stays quick.

    __getattr__ = lazy.attributes(__name__, {"GraphDef": "protos", "FileWriter": "summary.writer:FileWriter"})

A name that the table does not have may be a module of the package; what is neither is an AttributeError that says so.
"""
import importlib
import importlib.util
import sys
import types


def attributes(package, table=None, modules=None):
    """The __getattr__ of a package.  Table: {name: "module" or "module:its name there"}, modules seen from the package.

    `from package import *` gives the names of exported(package, table, modules)."""
    names, table = table, table or {}

    def __getattr__(name):
        if name == "__all__":
            return exported(package, names, modules)
        found = _from_table(package, table, name) if name in table else _submodule(package, name)
        setattr(sys.modules[package], name, found)  # the next time it is found at once
        return found

    return __getattr__


def listing(package, table=None):
    """The __dir__ of such a package: what is there, and what would be there."""
    def __dir__():
        import pkgutil
        module = sys.modules[package]
        modules = {m.name for m in pkgutil.iter_modules(getattr(module, "__path__", [])) if not m.name.startswith("_")}
        return sorted(set(vars(module)) | set(table or ()) | modules)

    return __dir__


def exported(package, table=None, modules=None):
    """The __all__ of a package, made when `import *` asks for it: public names, those of the table, and its public modules.

    modules names the public ones, for a package may have others that are not for users (train.input would hide the builtin).
    None: all where there is no table, else none."""
    module = sys.modules[package]
    if modules is None:
        import pkgutil
        modules = "" if table else " ".join(m.name for m in pkgutil.iter_modules(getattr(module, "__path__", [])))
    names = {n for n, value in vars(module).items() if not isinstance(value, types.ModuleType)}
    return sorted(n for n in names | set(table or ()) | set(modules.split()) if not n.startswith("_"))


def _from_table(package, table, name):
    module, _, there = table[name].partition(":")
    found = importlib.import_module("." + module, package) if module else sys.modules[package]
    return getattr(found, there or name)


def _submodule(package, name):
    full = package + "." + name
    if not name.startswith("_") and name.isidentifier() and importlib.util.find_spec(full) is not None:
        return importlib.import_module(full)
    raise AttributeError("module '%s' has no attribute '%s'" % (package, name))


def selection(module, names, renamed=None):
    """The __getattr__ of a module that has names of tf and tf.nn: some as they are, some under another name {here: there}."""
    there = {**{n: n for n in names.split()}, **(renamed or {})}

    def __getattr__(name):
        if name == "__all__":
            return exported(module, there)
        if name not in there:
            raise AttributeError("module '%s' has no attribute '%s'" % (module.replace("millrace", "tf", 1), name))
        tf = importlib.import_module("millrace")
        found = getattr(tf, there[name], None)
        found = getattr(tf.nn, there[name]) if found is None else found
        setattr(sys.modules[module], name, found)
        return found

    return __getattr__
