"""Resolves symbolic links itself, so that they cannot lead out of the root.

The kernel would follow links anywhere. This module examines each component and returns a path without links. It opens
no file: `safe_open` walks the returned path as strictly as any other path, so a link that changes in between makes that
walk fail and never leads out of the root.
"""

import errno
import os
import stat

# The limit of links that Linux allows in one path (path_resolution(7)).
MOST = 40


def resolve(root: int, root_path: bytes, parts: list[bytes]) -> list[bytes]:
    """Return the components of the link-free path, relative to the root, that `parts` lead to.

    `root` is a descriptor of the root, `root_path` its absolute path. An absolute link is inside the root if it begins
    with `root_path`, as written or with its own links resolved. Raises OSError: ENOENT or ENOTDIR if a component is
    missing, ELOOP after more than `MOST` links, EXDEV if a link leads out of the root.
    """
    todo = parts[::-1]
    done: list[bytes] = []
    followed = 0
    fd = os.dup(root)
    try:
        while todo:
            part = todo.pop()
            if part == b"..":
                if not done:
                    raise _error(errno.EXDEV)
                done.pop()
                fd = _swap(fd, _walk(root, done))
                continue
            status = os.stat(part, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                followed += 1
                if followed > MOST:
                    raise _error(errno.ELOOP)
                target = os.readlink(part, dir_fd=fd)
                if target.startswith(b"/"):
                    target = _inside(root_path, target)
                    done.clear()
                    fd = _swap(fd, os.dup(root))
                todo.extend(step for step in reversed(target.split(b"/")) if step not in {b"", b"."})
                continue
            if todo:
                fd = _swap(fd, os.open(part, _FOLDER, dir_fd=fd))
            done.append(part)
    finally:
        os.close(fd)
    return done


_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _inside(root_path: bytes, target: bytes) -> bytes:
    """Return the part of an absolute target below the root; raises OSError (EXDEV) if the target is outside."""
    for base in (root_path.rstrip(b"/"), os.path.realpath(root_path).rstrip(b"/")):
        if target == base or target.startswith(base + b"/"):
            return target[len(base) :]
    raise _error(errno.EXDEV)


def _walk(root: int, parts: list[bytes]) -> int:
    fd = os.dup(root)
    try:
        for part in parts:
            fd = _swap(fd, os.open(part, _FOLDER, dir_fd=fd))
    except OSError:
        os.close(fd)
        raise
    return fd


def _swap(old: int, new: int) -> int:
    os.close(old)
    return new


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
