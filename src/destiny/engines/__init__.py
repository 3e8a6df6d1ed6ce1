"""Where agents live and how their messages travel. One definition of an algorithm runs on all of them."""

from destiny.engines.local import Local


def local(threads: int | None = None) -> Local:
    """All agents in this process; see `Local`."""
    return Local(threads)


__all__ = ["Local", "local"]
