"""How an object of a user's own class gets the defaults of a base."""

from __future__ import annotations

from typing import Any, TypeVar

_Wrapper = TypeVar("_Wrapper")


def forward(wrapper: type[_Wrapper]) -> type[_Wrapper]:
    """Class decorator for wrappers: what the base class has and the wrapper does not is asked of ``inner``.

    Where ``self.inner`` has no such member either, it is the default of the base class.
    """
    (base,) = wrapper.__bases__
    missing = object()

    def member(name: str) -> property:
        def read(self: Any) -> Any:
            own = getattr(self.inner, name, missing)
            return getattr(super(wrapper, self), name) if own is missing else own

        return property(read)

    for name in vars(base):
        if not name.startswith("_") and name not in vars(wrapper):
            setattr(wrapper, name, member(name))
    return wrapper
