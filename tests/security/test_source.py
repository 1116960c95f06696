"""What the source does nowhere, whoever changes it."""

import ast
from functools import cache
from pathlib import Path

import assetsync

PACKAGE = Path(assetsync.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
# A pass of the timer asks systemd for the calendar of its timer, by words of its own and systemd's.
STARTS_PROGRAMS = {"notify/channel.py", "cli/commands/reconcile.py"}
# Each would hand text from outside to something that carries it out.
NEVER = {
    *("eval", "exec", "compile", "__import__"),
    *("os.system", "os.popen", "os.execv", "os.execve", "os.execvp", "os.posix_spawn", "os.spawnv"),
    *("pickle.load", "pickle.loads", "marshal.loads", "yaml.load", "yaml.unsafe_load", "yaml.full_load"),
    *("subprocess.getoutput", "subprocess.getstatusoutput"),
}


def name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@cache
def nodes(source: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source.read_text("utf-8"))))


def calls(source: Path) -> list[ast.Call]:
    return [node for node in nodes(source) if isinstance(node, ast.Call)]


def test_no_shell_no_eval_no_pickle():
    found = {str(source.relative_to(PACKAGE)): calls(source) for source in SOURCES}
    named = {(path, name_of(call.func)) for path, made in found.items() for call in made}
    assert {(path, name) for path, name in named if name in NEVER} == set()
    assert [
        path for path, made in found.items() for call in made for word in call.keywords if word.arg == "shell"
    ] == []


def test_two_modules_start_programs():
    importing = {
        str(source.relative_to(PACKAGE))
        for source in SOURCES
        for node in nodes(source)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and "subprocess" in {getattr(node, "module", None), *(alias.name for alias in node.names)}
    }
    assert importing == STARTS_PROGRAMS


def test_tls_is_switched_off_nowhere():
    text = "\n".join(source.read_text("utf-8") for source in SOURCES)
    assert [
        word for word in ("verify=False", "CERT_NONE", "check_hostname = False", "_unverified") if word in text
    ] == []


def test_the_check_finds_what_it_looks_for():
    (call,) = (node for node in ast.walk(ast.parse("os.system('x')")) if isinstance(node, ast.Call))
    assert name_of(call.func) in NEVER
