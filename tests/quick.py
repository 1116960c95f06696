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
    return not _SLOW_NAMES.isdisjoint(_names_reached((item.function, *fixtures), item.cls))


# Each parameter of a test is a test of its own.
@cache
def _names_reached(functions: tuple[object, ...], test_class: type | None) -> set[str]:
    """Return all names that these functions use, and the functions and methods of the tests that they reach."""
    names: set[str] = set()
    classes: set[type] = {test_class} if test_class else set()
    seen: set[FunctionType] = set()
    waiting = list(functions)
    while waiting:
        function = _plain(waiting.pop())
        if function is None or function in seen:
            continue
        seen.add(function)
        used = _names_in(function.__code__)
        names |= used
        values = [function.__globals__[name] for name in used if name in function.__globals__]
        for module in (value for value in values if isinstance(value, ModuleType) and _is_of_tests(value.__name__)):
            values += [vars(module)[name] for name in used if name in vars(module)]
        classes |= {value for value in values if isinstance(value, type) and _is_of_tests(value.__module__)}
        methods = [method for reached in classes for name, method in vars(reached).items() if _is_called(name, names)]
        waiting += [*values, *methods]
    return names


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
