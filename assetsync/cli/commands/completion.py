"""`assetsync completion`: print the script with which a shell completes commands, options and states.

click writes the script; one condition of its script for zsh is replaced.
"""

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from assetsync.cli.output import write
from assetsync.cli.root import root

_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Examples:
      assetsync completion bash > /etc/bash_completion.d/assetsync
      assetsync completion zsh > /usr/local/share/zsh/site-functions/_assetsync
      assetsync completion fish > ~/.config/fish/completions/assetsync.fish
    """
    script = _SHELLS[shell](root, {}, "assetsync", "_ASSETSYNC_COMPLETE").source()
    # zsh names a file of functions only at its first call; with click's condition the second TAB completes nothing.
    write(script.replace("$zsh_eval_context[-1] == loadautofunc", "$funcstack[1] == _assetsync"))
