"""The tests that `--quick` runs, for use after each edit.

It leaves out the folders and files that run whole installations for long, and every test that starts a process, serves
the sandbox, runs a whole site, measures memory, or lets a site live through simulated time: itself, in a fixture, or in
a function of the tests that either calls.
"""

import inspect
from functools import cache
from types import CodeType, FunctionType, ModuleType

import pytest

LONG_PLACES = frozenset({"benchmarks", "browser", "faults", "independent", "soak", "systemd", "test_demo.py"})

_SLOW_NAMES = frozenset(
    {
        *("subprocess", "multiprocessing", "fork", "forkpty", "posix_spawn"),
        *("Sandbox", "Reconciler", "live", "tracemalloc"),
    }
)


def is_slow(item: pytest.Function) -> bool:
    """Return whether a test reaches one of the names by which the tests do what takes long.

    A method counts as called if a function that was reached uses its name, and its class was reached too.
    """
    fixtures = [fixture.func for found in item._fixtureinfo.name2fixturedefs.values() for fixture in found]
    return _reaches_slow(frozenset(filter(None, map(_plain, (item.function, *fixtures)))), item.cls)


# Each parameter of a test is a test of its own.
@cache
def _reaches_slow(functions: frozenset[FunctionType], test_class: type | None) -> bool:
    names: set[str] = set()
    classes: set[type] = {test_class} if test_class else set()
    seen: set[FunctionType] = set()
    waiting = set(functions)
    while waiting:
        seen |= waiting
        for used, called, instantiated in map(_used_by, waiting):
            names |= used
            waiting = waiting | called
            classes |= instantiated
        if not _SLOW_NAMES.isdisjoint(names):
            return True
        methods = {each for reached in classes for name, each in _methods(reached).items() if _is_called(name, names)}
        waiting = (waiting | methods) - seen
    return False


@cache
def _used_by(function: FunctionType) -> tuple[set[str], set[FunctionType], set[type]]:
    """Return the names that a function uses, and the functions and classes of the tests among them."""
    names = _names_in(function.__code__)
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    for module in (value for value in values if isinstance(value, ModuleType) and _is_of_tests(value.__name__)):
        values += [vars(module)[name] for name in names if name in vars(module)]
    classes = {value for value in values if isinstance(value, type) and _is_of_tests(value.__module__)}
    return names, set(filter(None, map(_plain, values))), classes


@cache
def _methods(of: type) -> dict[str, FunctionType]:
    return {name: method for name, value in vars(of).items() if (method := _plain(value)) is not None}


def _plain(value: object) -> FunctionType | None:
    """Return the function of the tests behind a value, its decorators taken off, or None."""
    value = value.fget if isinstance(value, property) else value
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, FunctionType) and _is_of_tests(value.__module__) else None


@cache
def _names_in(code: CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names_in, inner))


def _is_called(method: str, names: set[str]) -> bool:
    return method in names or method.startswith("__")


def _is_of_tests(module: str) -> bool:
    return module.partition(".")[0] == "tests"
