"""``destiny agent``, ``destiny agents init``, ``destiny certificates``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from destiny.agents import init, status
from destiny.agents.agent import run
from destiny.agents.settings import read

PROCESS, UPTIME = Path("/proc/self/stat"), Path("/proc/uptime")  # on Linux alone

many = typer.Typer(add_completion=False, no_args_is_help=True, help="Sets of agents.")


def agent(
    file: Annotated[Path, typer.Argument(help="The agent, a TOML file (docs/agents.md).")],
    status_port: Annotated[
        int | None, typer.Option("--status", help="Serve a page and metrics on this port of localhost.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but the answer.")] = False,
) -> None:
    """Run the agent of one organisation; started again, it goes on where it was."""
    watchers = [] if status_port is None else [status.serve(status_port)]
    terminal: list[status.Terminal] = []
    if status.Terminal.wanted() and not quiet:
        watchers.append(lambda view: terminal.append(status.Terminal(view)) or terminal[0])  # type: ignore[func-returns-value]
    try:
        outcome = run(read(file), loud=not quiet, watchers=watchers, age=process_age())
    finally:
        for shown in terminal:
            shown.live.stop()
    print(outcome)


def process_age() -> float:
    """Seconds since this process was started; 0 where the system does not say."""
    try:
        ticks = int(
            PROCESS.read_text().rpartition(")")[2].split()[19]
        )  # man 5 proc: field 22, after the name
        return max(0.0, float(UPTIME.read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return 0.0


@many.command("init")
def initialise(
    network: Annotated[
        str, typer.Argument(help="An experiment file, a kind of network, or a file of links.")
    ],
    hosts: Annotated[str, typer.Option(help="NAME=HOST:PORT of each agent, with commas between.")],
    out: Annotated[Path, typer.Option(help="Folder for the files.")],
    run_id: Annotated[str, typer.Option("--run", help="Name of the run, the same at all agents.")] = "run-1",
) -> None:
    """Write a matching set of agent files, a folder for each organisation."""
    for path in init.files(network, hosts, out, run_id):
        print(path)


def certificates(
    folder: Annotated[Path, typer.Argument(help="Where destiny agents init has put the agents.")],
) -> None:
    """Make a test authority and a certificate for each agent of a folder: to try things out, no more."""
    for name in init.certificates(folder):
        print(f"{name}: {', '.join(init.CERTIFICATES.values())}")
    print("for trying out: the authority's own key was not kept; a real one is described in docs/agents.md")
