"""``destiny agent``, ``destiny agents init``, ``destiny certificates``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

NOT_CONVERGED = 3  # exit code of an agent that has an answer, but not one of the accuracy that was asked for
PROCESS, UPTIME = Path("/proc/self/stat"), Path("/proc/uptime")  # on Linux alone

many = typer.Typer(no_args_is_help=True, help="Sets of agents.")


def agent(
    file: Annotated[Path, typer.Argument(help="The agent, a TOML file (docs/agents.md).")],
    status_port: Annotated[
        int | None, typer.Option("--status", help="Serve a page and metrics on this port of localhost.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but the answer.")] = False,
) -> None:
    """Run the agent of one organization; started again, it goes on where it was.

    Exit codes: 0 converged, 1 the run ended without an answer, 2 a mistake for people to mend, 3 an answer
    that has not converged, 75 start it again.
    """
    from destiny.agents import status
    from destiny.agents.agent import run
    from destiny.agents.agent_file import read
    from destiny.agents.observation import View
    from destiny.agents.status_file import StatusFile

    terminal: list[status.Terminal] = []
    files: list[StatusFile] = []

    def show(view: View) -> status.Terminal:
        terminal.append(status.Terminal(view))
        return terminal[0]

    def keep_file(view: View) -> StatusFile:
        files.append(StatusFile(view))
        return files[0]

    watchers: list[Callable[[View], Callable[[], None]]] = [keep_file]
    if status_port is not None:
        watchers.append(status.serve(status_port))
    if status.Terminal.is_available() and not quiet:
        watchers.append(show)
    try:
        outcome = run(read(file), loud=not quiet, watchers=watchers, age=process_age())
    finally:
        for display in terminal:
            display.live.stop()
        for status_file in files:
            status_file.remove()
    print(outcome)
    if not outcome.converged:
        raise typer.Exit(NOT_CONVERGED)


def process_age() -> float:
    """Return the seconds since this process was started; 0 if the system does not tell."""
    try:
        fields = PROCESS.read_text().rpartition(")")[2].split()  # after the name: from field 3 on
        ticks = int(fields[19])  # field 22 in man 5 proc
        return max(0.0, float(UPTIME.read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return 0.0


@many.command("init")
def initialize(
    network: Annotated[
        str, typer.Argument(help="An experiment file, a kind of network, or a file of links.")
    ],
    hosts: Annotated[str, typer.Option(help="NAME=HOST:PORT of each agent, with commas between.")],
    out: Annotated[Path, typer.Option(help="Folder for the files.")],
    run_id: Annotated[str, typer.Option("--run", help="Name of the run, the same at all agents.")] = "run-1",
    p: Annotated[
        int | None, typer.Option("--p", help="Number of components, if no experiment file says it.")
    ] = None,
    private: Annotated[
        bool | None,
        typer.Option(
            "--private/--plain",
            help="Let neighbors learn sums only, or all numbers; by default sums, if the network allows it.",
        ),
    ] = None,
    late: Annotated[
        str, typer.Option(help="Names, with commas between, of agents that may come while the others run.")
    ] = "",
) -> None:
    """Write a matching set of agent files, a folder for each organization."""
    from destiny.agents import scaffold

    names = [name for name in map(str.strip, late.split(",")) if name]
    for path in scaffold.write_agent_files(network, hosts, out, run_id, p, private, names):
        print(path)
    print(f"destiny: {scaffold.disclosure(network, hosts, private)}", file=sys.stderr)
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
    """Check all that an agent checks at its start, without calling anybody; say what it will send."""
    from destiny.agents import status
    from destiny.agents.agent import largest_message
    from destiny.agents.agent_file import read
    from destiny.agents.start import check_method, check_start
    from destiny.run.forecast import amount

    settings = read(file)
    plan, credentials = check_method(settings), check_start(settings)
    n, p = settings.problem.shape
    print(f"{settings.name}, run {settings.run}: {settings.common['problem.kind']}, n = {n}, p = {p}")
    print(f"certificate {credentials.fingerprint()}")
    print(status.days_left(credentials))
    print(settings.who_dials)
    if settings.choice is not None:
        print(settings.choice)
    largest = amount(*largest_message(settings, plan))
    sent = f"each of {len(settings.neighbors)} neighbors is sent up to {largest}"
    print(f"{sent} in a round; at most {settings.rounds} rounds, and some more to average the answer")
    print(settings.disclosure)


def certificates(
    folder: Annotated[Path, typer.Argument(help="Where destiny agents init has put the agents.")],
) -> None:
    """Make a test authority and a certificate for each agent of a folder: to try things out, no more."""
    from destiny.agents import scaffold

    for name, fingerprint in scaffold.write_certificates(folder).items():
        print(f"{name}: {', '.join(scaffold.CERTIFICATES.values())}; {fingerprint}")
    print("for trying out: the authority's own key was not kept; a real one is described in docs/agents.md")
