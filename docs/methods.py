"""Write docs/methods.md from the code and from docs/methods.csv: ``python docs/methods.py``."""

import csv
import dataclasses
from pathlib import Path
from typing import Any

from destiny.algorithms import METHODS
from destiny.run.own import settings_of

HERE = Path(__file__).parent
PAGES = {"acceleration": "Acceleration", "newton": "Averaged models", "krylov": "Krylov spaces"}
PAGES |= {"lbfgs": "Quasi-Newton steps"}
PAGES |= {"sparse": "Sparse answers"}
PAGES |= {"generalized": "Generalized constraints", "star": "With a coordinator"}
PUBLIC = "destiny.algorithms"  # where the reference has the methods
INTRO = r"""# Methods

*Written by `python docs/methods.py` from the descriptions of the methods, which the tests verify. Do not edit.*

Every method is a `kind` in [experiment files](experiment-files.md) and a class in `destiny.algorithms`; all run on
every engine, from the same start, with the same measures, and `destiny compare FILE.toml` (or `destiny.compare`)
puts them side by side. Defaults are scale-free: multiply the data by 1000 and the iterates stay the same. Agents of
`destiny-async` (`destiny.extensions.asynchronous.DestinyAsync`) have no rounds: they run in simulated time and between organizations, see [Asynchrony](asynchrony.md).

```python
import destiny
from destiny.algorithms import DRGTA, DeEPCA, Extra

problem = destiny.problems.pca.synthetic(n=30, m=320, p=3, xi=0.8, agents=8, seed=0)
network = destiny.networks.erdos_renyi(8, prob=0.6, seed=0)
methods = {
    "DESTINY": destiny.Destiny(),
    "DRGTA": DRGTA(),
    "DeEPCA": DeEPCA(),
    "DeEPCA, 4 rounds": DeEPCA(rounds=4),
    "EXTRA, landing": Extra(direction="landing"),
}
comparison = destiny.compare(problem, network, methods, rounds=2000)
print(comparison)  # rounds, bytes, seconds, the three measures, why each stopped; the best are marked
failed = {label for label, result in comparison.results.items() if not result.converged}
assert failed == {"DeEPCA"}  # one round per step is too few for it here
```

*Sends*: $n \times p$ matrices to each neighbor in a round, times rounds per step. *Exact*: reaches a stationary point; the
others stall at a bias, or creep, whatever the number of rounds. *Gives*: a basis of the subspace, or the eigenvectors
themselves (`result.axes` has them for every method on PCA). A dagger (†) marks a reconstruction from a description or
an abstract: sound, but not guaranteed to be what the named paper does line by line.

STOCHASTIC also work with the gradients of [mini-batches](minibatches.md). REGULARIZED also
minimize f + r with a [regularizer](sparse.md) r; for such problems THANOS is not exact. GENERALIZED also takes the
[constraint](generalized.md) $X^T M X = I$. STAR needs a [star](star.md).
"""
FAMILY = r"""## Scheme times direction

`destiny`, `diging`, `atc`, `extra`, `exact-diffusion` and `dgd` take a `direction`; the other members of the family fix
it. With $E = X^T X - I$ and $s = \nabla f$ at the point named:

| direction | $s$ at | the field |
|---|---|---|
| `h` | $X X^T X$ | $s (I - E/2) - X \, \operatorname{sym}(X^T s) + \beta X E$ |
| `expen` | $X (3 I - X^T X)/2$ | $s (I - E/2) - X \, \operatorname{sym}(X^T s) + \beta X E$ |
| `plam` | $X$ | $s - X \, \operatorname{sym}(X^T s) + \beta X E$ |
| `landing` | $X$ | $(s X^T X - X s^T X)/2 + \beta X E$ |

Trackers (`destiny`, `diging`, `atc`, `drgta`, `dprgt`) are exact whatever steps the agents take, so each may choose its
own by Barzilai and Borwein's rule. `extra`, `exact-diffusion`, `pg-extra`, `adsa` and `admm-pca` are exact only if all
agents end up with the same number: give one, or leave it to the default, with which agents start from what they
averaged in the opening rounds and send the number along until it is the same everywhere.

Methods with a `rounds` setting average several times per step; `mixing = "chebyshev"` or `"fastmix"` makes those
rounds count for more on badly connected networks, and takes lambda from the network.
"""


def line(method: type[Any]) -> str:
    """Return one row of a table."""
    a = method.about
    rounds = f"`{a.rounds}`" if isinstance(a.rounds, str) else str(a.rounds)
    matrices = f"({a.sends} + n x n)" if a.triangles else str(a.sends)
    sends = "nothing" if "alone" in a else f"{matrices} x {rounds}"
    cells = [
        f"`{method.kind}`",
        f"[{a.title}](api/algorithms.md#{PUBLIC}.{method.__name__})"
        + (" †" if "reconstruction" in a else ""),
        sends,
        "no" if "inexact" in a else "yes",
        "eigenvectors" if "axes" in a else "basis",
        a.needs if "alone" not in a else "-",
        settings(method),
        linked(a.source),
    ]
    return f"| {' | '.join(cells)} |"


def linked(source: str) -> str:
    """A source with links to the pages it names."""
    for page, title in PAGES.items():
        source = source.replace(f"docs/{page}.md", f"[{title}]({page}.md)")
    return source


def settings(method: type) -> str:
    """Settings and their defaults, as in an experiment file."""
    shown = []
    settings = settings_of(method())
    for field in dataclasses.fields(method):
        if field.init:
            name = field.name.strip("_").replace("_", "-").replace("step-size", "step")
            value = settings[field.name]
            if isinstance(value, dict):
                value = value["kind"]
            shown.append(f"`{name}`" + ("" if value is None else f" {value}"))
    return ", ".join(shown)


def table(methods: list[type]) -> str:
    """Methods of a class, one line each."""
    head = "| kind | method | sends | exact | gives | needs | settings and defaults | source |"
    return "\n".join([head, "|" + "---|" * 8, *map(line, methods)])


def measured() -> str:
    """What came of every method on Figure 3's problem, from the file that benchmarks/methods.py writes."""
    path = HERE / "methods.csv"
    if not path.exists():
        return ""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    probs = list(dict.fromkeys(row["prob"] for row in rows))
    lambdas = {row["prob"]: float(row["lambda"]) for row in rows}
    by_method = {(row["kind"], row["prob"]): row for row in rows}
    head = "| kind | " + " | ".join(f"prob {p} (lambda {lambdas[p]:.2f})" for p in probs) + " |"
    body = []
    listed = {row["kind"] for row in rows}
    ordered = [m.kind for m in METHODS if m.kind in listed]
    for kind in [*ordered, *sorted(listed - set(ordered))]:
        cells = []
        for p in probs:
            row = by_method.get((kind, p))
            if row is None:
                cells.append("")
                continue
            missed = f"{float(row['worst']):.0e} after {row['rounds']}"
            cells.append(row["rounds"] if row["converged"] == "True" else missed)
        body.append(f"| `{kind}` | {' | '.join(cells)} |")
    note = (
        "## On the problem of the paper's Figure 3\n\n"
        "Rounds until stationarity, consensus and feasibility are all below 1e-8, opening rounds included, with every\n"
        "method's defaults; or the largest of the three after the rounds allowed. PCA, n = 300, m = 3200, p = 10,\n"
        "xi = 0.95, 32 agents on Erdos-Renyi networks, one seed, by `python -m benchmarks.methods`. The last row is\n"
        "DRGTA as the paper runs it: alpha = 1 and Barzilai-Borwein steps without a bound. [`faps`](star.md) needs a star;\n"
        "`destiny-prox`, `thanos` and `cdadt` are made for other problems. [What is proved](theory.md) of each method.\n"
    )
    return "\n".join([note, head, "|---" * (1 + len(probs)) + "|", *body, ""])


def page() -> str:
    """The whole page."""
    any_f = [m for m in METHODS if not m.about.problem and "alone" not in m.about]
    pca = [m for m in METHODS if m.about.problem == "pca" and "alone" not in m.about]
    alone = [m for m in METHODS if "alone" in m.about]
    stochastic = ", ".join(f"`{m.kind}`" for m in METHODS if "stochastic" in m.about)
    regularized = ", ".join(f"`{m.kind}`" for m in METHODS if "regularized" in m.about)
    generalized = ", ".join(f"`{m.kind}`" for m in METHODS if "generalized" in m.about)
    star = ", ".join(f"`{m.kind}`" for m in METHODS if "star" in m.about)
    parts = [
        INTRO.replace("STOCHASTIC", stochastic)
        .replace("REGULARIZED", regularized)
        .replace("GENERALIZED", generalized)
        .replace("STAR", star),
        "## For any f\n\n" + table(any_f) + "\n",
        "## For PCA only\n\nUsed on another problem they refuse, naming both.\n\n" + table(pca) + "\n",
        "## For one agent\n\nGround truth, and comparison: `agents = 1`, or `destiny.problems.pooled(problem)`, which "
        "pools the\ndata of all agents in one place.\n\n" + table(alone) + "\n",
        FAMILY,
        measured(),
    ]
    return "\n".join(part for part in parts if part)


if __name__ == "__main__":
    (HERE / "methods.md").write_text(page(), encoding="utf-8")
