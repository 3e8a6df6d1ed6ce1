"""``destiny agent``, ``destiny agents init``, ``destiny certificates``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from destiny.agents import scaffold, status
from destiny.agents.agent import run
from destiny.agents.settings import read
from destiny.agents.transport.tls import Credentials

NOT_CONVERGED = 3  # exit code of an agent that has an answer, but not one of the accuracy that was asked for
PROCESS, UPTIME = Path("/proc/self/stat"), Path("/proc/uptime")  # on Linux alone

many = typer.Typer(add_completion=False, no_args_is_help=True, help="Sets of agents.")


def agent(
    file: Annotated[Path, typer.Argument(help="The agent, a TOML file (docs/agents.md).")],
    status_port: Annotated[
        int | None, typer.Option("--status", help="Serve a page and metrics on this port of localhost.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but the answer.")] = False,
) -> None:
    """Run the agent of one organisation; started again, it goes on where it was.

    Exit codes: 0 converged, 1 the run ended without an answer, 2 a mistake for people to mend, 3 an answer
    that has not converged, 75 start it again.
    """
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
    if not outcome.converged:
        raise typer.Exit(NOT_CONVERGED)


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
    p: Annotated[
        int | None, typer.Option("--p", help="Number of components, if no experiment file says it.")
    ] = None,
) -> None:
    """Write a matching set of agent files, a folder for each organisation."""
    for path in scaffold.files(network, hosts, out, run_id, p):
        print(path)
    if p is None and not scaffold.is_experiment(network):
        assumed = f"PCA of {scaffold.PROBLEM['data']} with p = {scaffold.PROBLEM['p']} components"
        print(
            f"destiny: without an experiment file this is {assumed}: --p chooses another number",
            file=sys.stderr,
        )


@many.command()
def check(
    file: Annotated[Path, typer.Argument(help="The agent, a TOML file (docs/agents.md).")],
) -> None:
    """Check the file of an agent without calling anybody; print its fingerprint and the days left."""
    settings = read(file)
    credentials = Credentials(settings.files, settings.authorities)
    n, p = settings.problem.shape
    print(f"{settings.name}, run {settings.run}: {settings.common['problem.kind']}, n = {n}, p = {p}")
    print(f"certificate {credentials.fingerprint()}")
    print(status.days_left(credentials))


def certificates(
    folder: Annotated[Path, typer.Argument(help="Where destiny agents init has put the agents.")],
) -> None:
    """Make a test authority and a certificate for each agent of a folder: to try things out, no more."""
    for name, fingerprint in scaffold.certificates(folder).items():
        print(f"{name}: {', '.join(scaffold.CERTIFICATES.values())}; {fingerprint}")
    print("for trying out: the authority's own key was not kept; a real one is described in docs/agents.md")
