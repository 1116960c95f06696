"""The completion scripts, in the shells that they are for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent

# In each shell: load the script, ask for the completion of a line as a person's Tab would, print one a line.
ASK = {
    "bash": """
        source "$1"
        COMP_WORDS=({words} '') COMP_CWORD={count}
        _assetsync_completion assetsync
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "zsh": """
        compdef() {{ }}
        compadd() {{ [[ "$*" == *" -a "* ]] && print -l -- "${{(@P)@[-1]}}" }}
        _describe() {{ for pair in "${{(@P)3}}"; do print -r -- "${{pair%%:*}}"; done }}
        source "$1"
        words=({words} '') CURRENT={current}
        _assetsync_completion
    """,
    "fish": """
        source $argv[1]
        complete --do-complete '{line} '
    """,
}


@pytest.fixture(params=list(ASK))
def complete(request, tmp_path):
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not there: apt-get install {shell}")
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    made = subprocess.run(["assetsync", "completion", shell], env=environ, capture_output=True, text=True, check=True)
    script = tmp_path / "script"
    script.write_text(made.stdout)

    def ask(line: str) -> set[str]:
        count = len(line.split())
        text = ASK[shell].format(words=line, line=line, count=count, current=count + 1)
        options = {"bash": ["-c", text, "bash"], "zsh": ["-f", "-c", text, "zsh"], "fish": ["-c", text]}[shell]
        done = subprocess.run([shell, *options, str(script)], env=environ, capture_output=True, text=True, check=True)
        return {line.split("\t")[0] for line in done.stdout.splitlines()}

    return ask


def test_tab_after_program_lists_commands(complete):
    assert {"run", "reconcile", "files", "completion"} <= complete("assetsync")


def test_tab_after_group_lists_subcommands(complete):
    assert {"list", "resolve"} <= complete("assetsync doubt")


def test_tab_after_option_lists_values(complete):
    assert {"verified", "blocked", "in_doubt"} <= complete("assetsync files --state")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not there: apt-get install zsh")
def test_zsh_completes_at_each_tab(tmp_path):
    """Of a file of functions, zsh runs the whole file at the first TAB, and its text as the function from then on."""
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    made = subprocess.run(["assetsync", "completion", "zsh"], env=environ, capture_output=True, text=True, check=True)
    (tmp_path / "_assetsync").write_text(made.stdout)
    text = """
        fpath=($1 $fpath); autoload -Uz _assetsync; compdef() { }; compadd() { }
        _describe() { for pair in "${(@P)3}"; do print -r -- "${pair%%:*}"; done }
        words=(assetsync '') CURRENT=2
        for number in 1 2 3; do _assetsync > $1/found; grep -c reconcile $1/found; done
    """
    done = subprocess.run(
        ["zsh", "-f", "-c", text, "zsh", str(tmp_path)], env=environ, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["1", "1", "1"], done.stderr


def test_what_is_asked_by_tab_ends_well():
    asked = {"_ASSETSYNC_COMPLETE": "bash_complete", "COMP_WORDS": "assetsync stat", "COMP_CWORD": "1"}
    command = [BIN / "assetsync"]
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "plain,status\n", "")
