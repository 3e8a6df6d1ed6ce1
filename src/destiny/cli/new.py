"""``destiny new`` and ``destiny schema``: a first file that works, and what editors need to help with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from destiny.cli.completion import among
from destiny.errors import SettingsError
from destiny.networks.kinds import PLAIN
from destiny.validation import did_you_mean

SCHEMA = "experiment.schema.json"
HEAD = """\
#:schema ./{schema}
# Check it:  destiny run {file} --dry
# Run it:    destiny run {file} --out results
# See it:    destiny report results --open
# All keys:  docs/experiment-files.md

"""
HINTS = {
    "problem": """\
# data = "silo-{agent}.csv"       # your own files instead of synthetic: one per agent, numbered from 0,
                                  # or a list of names; also .npy, .npz, .mat and .parquet
# samples = "rows"                # a line of the file is a sample
# sep = ";"                       # of .csv files: what stands between fields,
# decimal = ","                   # the decimal sign,
# columns = ["age", "bmi"]        # and the columns to read, by name; all
# center = true                   # subtract the mean of everybody's samples
# standardize = true              # also divide each column by its standard deviation: for unequal units
""",
    "network": """\
# kind = "random-regular"         # more links, fewer rounds; needs: degree = 3, seed = 0

# [[algorithm]]                   # the method is chosen by itself, and the result says why; to choose one,
# kind = "destiny-accelerated"       # any of docs/methods.md; of several tables destiny compare shows all
""",
}


def new(
    file: Annotated[Path, typer.Argument(help="The experiment to write, a TOML file.")],
    kind: Annotated[
        str, typer.Option(help="pca, olsr or sdl.", autocompletion=among(("pca", "olsr", "sdl")))
    ] = "pca",
    p: Annotated[int, typer.Option("--p", help="Number of components.")] = 2,
    agents: Annotated[int, typer.Option(help="Number of agents.")] = 4,
    network: Annotated[str, typer.Option(help=", ".join(PLAIN), autocompletion=among(PLAIN))] = "ring",
) -> None:
    """Write a working experiment on random data, with comments on what to change, and its schema."""
    from destiny.agents.certificates import check_absent, write
    from destiny.config.files import ExperimentFile
    from destiny.config.toml_text import to_toml
    from destiny.experiments import file as experiments
    from destiny.problems.kinds import KINDS
    from destiny.run.solve import SolveOptions

    if file.suffix != ".toml":
        raise SettingsError(f"FILE must be a TOML file, such as {file}.toml; found {file}")
    if kind not in KINDS:
        raise SettingsError(
            f"--kind must be one of {', '.join(KINDS)}; found {kind!r}{did_you_mean(kind, KINDS)}"
        )
    if network not in PLAIN:
        near = did_you_mean(network, PLAIN) or "; others need options: write them into the file"
        raise SettingsError(f"--network must be one of {', '.join(PLAIN)}; found {network!r}{near}")
    tables: dict[str, Any] = {
        "problem": {"kind": kind, "synthetic": KINDS[kind].example, "p": p, "agents": agents},
        "network": {"kind": network},
        "stop": {"rounds": SolveOptions.rounds, "tolerance": SolveOptions.tolerance},
        "run": {"every": SolveOptions.every, "checkpoint": SolveOptions.checkpoint_every},
    }
    experiments.make(tables, Path(), str(file))  # refuses before anything is written
    for path in (file, file.parent / SCHEMA):
        check_absent(path)
    write(
        file, (HEAD.format(schema=SCHEMA, file=file.name) + to_toml(tables, ExperimentFile, HINTS)).encode()
    )
    show_schema("experiment", file.parent / SCHEMA)
    print(file)
    print(f"next: destiny run {file} --dry", file=sys.stderr)


def show_schema(
    which: Annotated[
        str, typer.Argument(help="experiment or agent.", autocompletion=among(("experiment", "agent")))
    ] = "experiment",
    out: Annotated[Path | None, typer.Option(help="File to write; printed without.")] = None,
) -> None:
    """Print the JSON schema of experiment or agent files, with which editors complete and check them."""
    from destiny.agents import agent_file
    from destiny.agents.certificates import write
    from destiny.experiments import file as experiments

    schemas = {"experiment": experiments.schema, "agent": agent_file.schema}
    if which not in schemas:
        near = did_you_mean(which, schemas)
        raise SettingsError(f"there are schemas of experiment and agent; found {which!r}{near}")
    text = json.dumps(schemas[which](), indent=1) + "\n"
    if out is None:
        print(text, end="")
    else:
        write(out, text.encode())
