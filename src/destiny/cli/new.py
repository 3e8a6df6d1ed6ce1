"""``destiny new`` and ``destiny schema``: a first file that works, and what editors need to help with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from destiny.cli.completion import among
from destiny.networks.kinds import PLAIN


def new(
    folder: Annotated[Path, typer.Argument(help="Folder to write the files into; made if need be.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(help="More data files, as the shell writes them for --data clinic-*.csv."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="pca, olsr or sdl.", autocompletion=among(("pca", "olsr", "sdl")))
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="A data file, once for each agent; or a name with * or {agent}; or one file for all. "
            "Without it data are random."
        ),
    ] = None,
    targets: Annotated[list[str] | None, typer.Option(help="olsr: files like those of --data.")] = None,
    p: Annotated[int | None, typer.Option("--p", help="Number of components.")] = None,
    agents: Annotated[int | None, typer.Option(help="Number of agents, if not one per file.")] = None,
    network: Annotated[str | None, typer.Option(help=", ".join(PLAIN), autocompletion=among(PLAIN))] = None,
    center: Annotated[
        bool | None, typer.Option("--center/--no-center", help="Subtract the mean of everybody's samples.")
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether .csv files begin with names, if that is unclear."),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            help="NAME=HOST:PORT of each agent, with commas between: write a folder for each of them, too."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing: take defaults for what is not said.")
    ] = False,
) -> None:
    """Write a working experiment, with comments; with --hosts also a folder for each organisation's agent.

    On a terminal it asks for what was not said.
    """
    from destiny.cli.new_files import Said, name_files, write_experiment

    folder, data, targets = name_files(folder, files, data, targets)
    said = Said(kind, data, targets, p, agents, network, center, hosts, header)
    write_experiment(folder, said, asking=sys.stdin.isatty() and not yes)


def show_schema(
    which: Annotated[
        str, typer.Argument(help="experiment or agent.", autocompletion=among(("experiment", "agent")))
    ] = "experiment",
    out: Annotated[Path | None, typer.Option(help="File to write; printed without.")] = None,
) -> None:
    """Print the JSON schema of experiment or agent files, with which editors complete and check them."""
    from destiny.cli.new_files import write_schema

    write_schema(which, out)
