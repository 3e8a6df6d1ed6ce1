"""An extension of Griffe, which reads the docstrings for the reference: parameters described together.

``problem, network`` with one description are two parameters; Griffe would give both the type and the default of the
first. Here each has those of its own, from the signature. Defaults that a signature takes from the dataclass of options
are shown as numbers.
"""

from collections import Counter
from typing import Any

from griffe import Class, DocstringSectionKind, Extension, Function, Module, Object


def correct(documented: Class | Function) -> None:
    """Give parameters that share a description the types and defaults of the signature."""
    docstring = documented.docstring
    assert docstring is not None
    sections = docstring.parse("numpy")
    for section in sections:
        if section.kind is DocstringSectionKind.parameters:
            shared = Counter(parameter.description for parameter in section.value)
            for parameter in section.value:
                if shared[parameter.description] > 1 and parameter.name in documented.parameters:
                    own = documented.parameters[parameter.name]
                    parameter.annotation, parameter.value = own.annotation, own.default
    docstring.parsed = sections


def visit(part: Object) -> None:
    """Everything in a part of the package."""
    if isinstance(part, Class | Function) and part.docstring:
        correct(part)
    for member in part.members.values():
        if isinstance(member, Object):  # and no alias of what is visited elsewhere
            visit(member)


def resolve_defaults(pkg: Module) -> None:
    """Replace ``SolveOptions.rounds`` and the like, as defaults of parameters, by what they are."""
    options = pkg["run.solve.SolveOptions"]
    for function in pkg["run.solve"].functions.values():
        for parameter in function.parameters:
            source, _, name = str(parameter.default).partition(".")
            if source == options.name:
                parameter.default = options[name].value


class Parameters(Extension):
    """Called when a package has been read."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Correct the docstrings of the whole package."""
        resolve_defaults(pkg)
        visit(pkg)
