"""The commands in what the program prints, for tests that paste them into a shell."""

import html
import re
from collections.abc import Iterator

# `runnable` names the configuration in each command of assetsync, which tells it from a sentence about assetsync.
_OWN = r"(?:(?:runuser|setpriv) [^`;\n]*/)?assetsync (?=(?:[a-z]+ ){1,2}--(?:site|config) )"
_START = rf"{_OWN}|systemctl (?=\w)|journalctl (?=-)|setfacl (?=-)"
_PRINTED = re.compile(rf"`((?:{_START})[^`]+)`|(?<![\w`/])((?:{_START})[^`;,()\n]+)")


def printed(text: str) -> list[str]:
    """Give each command of a text once, in its order: what stands in backticks, else up to the end of its clause."""
    return list(dict.fromkeys((found[1] or found[2]).strip() for found in _PRINTED.finditer(text)))


def printed_on_page(page: str) -> list[str]:
    """Give each command of an HTML page once: all are code."""
    codes: Iterator[str] = (html.unescape(code) for code in re.findall(r"<code>(.*?)</code>", page))
    return list(dict.fromkeys(command for code in codes for command in printed(f"`{code}`")))
