"""``destiny replay``, ``destiny agents leave`` and ``destiny agents remove``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def replay(
    paths: Annotated[
        list[Path], typer.Argument(help="Agent files of a run, or the folder that holds NAME/agent.toml.")
    ],
) -> None:
    """Make an asynchronous run again from its logs, and compare the bits (docs/asynchrony.md).

    Every agent needs replay = true in the table run of its file. Exit code 1 if the bits differ.
    """
    from destiny.extensions.asynchronous.agents.replay import find_files
    from destiny.extensions.asynchronous.agents.replay import replay as make_again

    different = 0
    for one in make_again(find_files(paths)):
        same = "the same bits" if one.same_bits else "OTHER BITS"
        different += not one.same_bits
        print(f"{one.settings.name}: {one.wakes} wakes, {one.starts} starts: {same}")
    if different:
        raise typer.Exit(1)


def leave(
    file: Annotated[Path, typer.Argument(help="The agent that is to leave, a TOML file.")],
) -> None:
    """Let an asynchronous agent leave its run for good; the others go on without its data."""
    from destiny.agents.agent_file import read
    from destiny.extensions.asynchronous.agents.membership import request_leave

    print(request_leave(read(file)))


def remove(
    file: Annotated[Path, typer.Argument(help="The agent of this organization, a TOML file.")],
    name: Annotated[
        str, typer.Argument(help="The neighbor that will not come back, or the index of any agent.")
    ],
) -> None:
    """Take another agent out of an asynchronous run, for good and for everybody, as it will not come back."""
    from destiny.agents.agent_file import read
    from destiny.extensions.asynchronous.agents.membership import request_leave

    print(request_leave(read(file), name))
