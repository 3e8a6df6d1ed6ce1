"""What ``destiny new`` asks for and writes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import typer

from destiny.agents import json_schema as agent_schema
from destiny.agents import scaffold
from destiny.agents.certificates import check_absent, write
from destiny.errors import SettingsError
from destiny.experiments import file, json_schema, template
from destiny.networks.kinds import KINDS, PLAIN
from destiny.validation import did_you_mean

T = TypeVar("T")
SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "experiment": json_schema.schema,
    "agent": agent_schema.schema,
}


@dataclass(frozen=True)
class Said:
    """The options of `new`; None where nothing was said."""

    kind: str | None
    data: Sequence[str] | None
    targets: Sequence[str] | None
    p: int | None
    agents: int | None
    network: str | None
    center: bool | None
    hosts: str | None
    header: bool | None = None


def name_files(
    folder: Path, more: Sequence[str] | None, data: Sequence[str] | None, targets: Sequence[str] | None
) -> tuple[Path, list[str] | None, list[str] | None]:
    """The folder, and the files of --data and --targets, with those that a pattern stands for.

    A shell replaces ``--data clinic-*.csv`` by several names, of which the option takes the first; the others
    come as arguments, before or after the folder.
    """
    places = [str(folder), *(more or [])]
    if more:
        if data is None or targets is not None:
            raise SettingsError(
                f"destiny new takes one folder; found {', '.join(places)}: write --data before each data "
                "file and --targets before each file of targets, or patterns in quotes, --data 'clinic-*.csv'"
            )
        own = next((place for place in places if not Path(place).is_file()), places[0])
        places.remove(own)
        folder, data = Path(own), [*data, *places]
    found = [
        None if some is None else expand("--" + key, some)
        for key, some in (("data", data), ("targets", targets))
    ]
    return folder, found[0], found[1]


def expand(option: str, names: Sequence[str]) -> list[str]:
    """Names of files, with those that a pattern such as clinic-*.csv stands for, in order."""
    files = []
    for name in names:
        path = Path(name)
        wild = any(sign in name for sign in "*?[") and not path.is_file()
        found = Path(path.anchor).glob(str(path.relative_to(path.anchor))) if wild else [name]
        matches = sorted(map(str, found))
        if not matches:
            raise SettingsError(f"{option} {name}: there is no file like this")
        files += matches
    return files


def write_experiment(folder: Path, said: Said, asking: bool) -> None:
    """Write the experiment, its schema and, with hosts, the folders of the agents; print their names."""
    for name in (template.FILE, template.SCHEMA):
        check_absent(folder / name)
    answers = collect(said, asking)
    here = Path()
    file.make(template.make_tables(answers, here), here, template.FILE)  # refuses before anything is written
    experiment = folder / template.FILE
    write(experiment, template.to_text(template.make_tables(answers, folder)).encode())
    write_schema("experiment", folder / template.SCHEMA)
    print(experiment)
    if said.hosts is None:
        print(f"next: destiny run {experiment} --dry", file=sys.stderr)
        return
    for path in scaffold.write_agent_files(str(experiment), said.hosts, folder, "run-1"):
        print(path)
    print(f"destiny: {scaffold.disclosure(str(experiment), said.hosts)}", file=sys.stderr)
    put = f"put each file of --data into its agent's folder, then destiny agents check {scaffold.FILE} there"
    check = put if answers.data else f"destiny agents check {scaffold.FILE} in each folder"
    print(f"next: destiny certificates {folder}, for a trial; {check}", file=sys.stderr)


def collect(said: Said, asking: bool) -> template.Answers:
    """What was said at the command line, completed by questions or defaults."""
    default = template.Answers()

    def ask(question: str, given: T | None, otherwise: T) -> T:
        if given is not None or not asking:
            return otherwise if given is None else given
        answer: T = typer.prompt(question, default=otherwise, type=type(otherwise), err=True)
        return answer

    def ask_files(question: str, given: Sequence[str] | None) -> Sequence[str]:
        return given if given is not None else expand("--data", ask(question, None, "").split())

    kind = ask("What to solve: pca, olsr or sdl", said.kind, default.kind)
    if kind not in template.SIZES:
        near = did_you_mean(kind, template.SIZES)
        raise SettingsError(f"--kind must be pca, olsr or sdl; found {kind!r}{near}")
    data = ask_files("Data files, with spaces between (nothing: random data)", said.data)
    targets = ask_files("Files of the targets", said.targets) if kind == "olsr" and data else ()
    if kind == "olsr" and data and not targets:
        raise SettingsError("olsr with --data needs --targets: files of what is to be fitted")
    count = number_of_agents(data, said)
    agents = ask("Number of agents", said.agents, default.agents) if count is None else count
    p = default.p if targets else ask("Number of components", said.p, default.p)
    network = ask(f"Network: {', '.join(PLAIN)}", said.network, default.network)
    if network not in PLAIN:
        needs = " (it needs options: write them into the file)" if network in KINDS else ""
        near = needs or did_you_mean(network, PLAIN)
        raise SettingsError(f"--network must be one of {', '.join(PLAIN)}; found {network!r}{near}")
    centred = bool(data) and kind != "sdl"
    center = ask("Subtract the mean of all samples", said.center, default.center) if centred else False
    return template.Answers(kind, data, targets, p, agents, network, center, said.header)


def number_of_agents(data: Sequence[str], said: Said) -> int | None:
    """How many agents there are by the files and hosts that were named; None if they do not tell."""
    named = None if said.hosts is None else len(scaffold.parse_hosts(said.hosts, said.agents))
    pattern = data[0] if len(data) == 1 and "{agent}" in data[0] else None
    files = len(data) if len(data) > 1 else None if pattern is None else count_files(pattern)
    counts = {"--hosts": named, "--data": files, "--agents": said.agents}
    known = {option: count for option, count in counts.items() if count is not None}
    if len(set(known.values())) > 1:
        found = ", ".join(f"{option} {count}" for option, count in known.items())
        raise SettingsError(f"the number of agents must be the same everywhere; found {found}")
    if named is not None and data and files is None:
        raise SettingsError(f"--data must name a file for each of the {named} agents in --hosts")
    return next(iter(known.values()), None)


def count_files(pattern: str) -> int:
    """How many files there are, numbered from 0."""
    count = 0
    while Path(pattern.replace("{agent}", str(count))).is_file():
        count += 1
    if count == 0:
        raise SettingsError(f"--data {pattern}: there is no file {pattern.replace('{agent}', '0')}")
    return count


def write_schema(which: str, out: Path | None) -> None:
    """Write a schema, or print it without ``out``."""
    if which not in SCHEMAS:
        near = did_you_mean(which, SCHEMAS)
        raise SettingsError(f"there are schemas of experiment and agent; found {which!r}{near}")
    text = json.dumps(SCHEMAS[which](), indent=1) + "\n"
    if out is None:
        print(text, end="")
    else:
        write(out, text.encode())
