"""
Frozen values with named fields: `dataclass(frozen=True)` for what a device needs before its host goes on.

`dataclasses` loads `inspect` and compiles six methods for each class, which for the classes of a plan is a quarter
of a device's start. Here only `__init__` is compiled, when it is first called. `replace`, `fields` and `asdict` of
`dataclasses` take such values too.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field

AClass = TypeVar("AClass", bound=type)
AValue = TypeVar("AValue")


@dataclass_transform(frozen_default=True)
def frozen(*hidden: str) -> Callable[[AClass], AClass]:
    """
    Make a class of its annotations and defaults, as `dataclass(frozen=True)` does.

    An `__init__` or `__repr__` of the class's own stays; the first sets the fields with `freeze`. The fields
    named `hidden` are neither shown nor compared.

    >>> @frozen()
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(3), Point(3) == Point(x=3, y=0), len({Point(3), Point(3)})
    (Point(x=3, y=0), True, 1)
    """

    def decorated(owner: AClass) -> AClass:
        kinds = {name: kind for name, kind in owner.__annotations__.items() if "ClassVar" not in kind}
        defaults = {name: vars(owner)[name] for name in kinds if name in vars(owner)}
        compared = tuple(name for name in kinds if name not in hidden)
        key: Callable[[object], object] = attrgetter(*compared) if compared else repr

        def __repr__(self: object) -> str:  # noqa: N807
            return f"{owner.__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in compared)})"

        def __eq__(self: object, other: object) -> bool:  # noqa: N807
            return key(self) == key(other) if type(other) is owner else NotImplemented

        def __hash__(self: object) -> int:  # noqa: N807
            return hash(key(self))

        members: dict[str, object] = {
            "__init__": vars(owner).get("__init__") or _Init(owner, kinds, defaults),
            "__repr__": vars(owner).get("__repr__") or __repr__,
            "__eq__": __eq__,
            "__hash__": __hash__,
            "__setattr__": _refuse,
            "__delattr__": _refuse,
            "__match_args__": tuple(kinds),
            "__dataclass_fields__": _Fields(kinds, defaults),
        }
        # A property of a base class would win over a field of its name.
        shadows = {name: None for name in kinds if hasattr(owner, name) and name not in defaults}
        for name, member in {**members, **shadows}.items():
            setattr(owner, name, member)
        return owner

    return decorated


def freeze(value: object, **fields: object) -> None:
    """Set fields of a frozen value, in its own `__init__` or `__post_init__`."""
    vars(value).update(fields)


def replace(value: AValue, **changes: object) -> AValue:
    """A frozen value with other fields, as `dataclasses.replace` gives it."""
    fields = {name: getattr(value, name) for name in value.__match_args__}  # type: ignore[attr-defined]
    return type(value)(**{**fields, **changes})


class _Init:
    """The `__init__` of a class, which is compiled when it is looked up for the first time."""

    def __init__(self, owner: type, kinds: dict[str, str], defaults: dict[str, object]) -> None:
        self._owner = owner
        self._kinds = kinds
        self._defaults = defaults

    def __get__(self, value: object, owner: type) -> Any:
        kinds, defaults = self._kinds, self._defaults
        parameters = [f"{name}=defaults['{name}']" if name in defaults else name for name in kinds]
        lines = [
            f"def __init__({', '.join(['self', *parameters])}):",
            f" vars(self).update({', '.join(f'{name}={name}' for name in kinds)})",
            " self.__post_init__()" if hasattr(self._owner, "__post_init__") else "",
        ]
        scope: dict[str, Any] = {"defaults": defaults}
        exec("\n".join(lines), scope)  # noqa: S102, all of it comes from the class
        init = scope["__init__"]
        init.__annotations__ = {**kinds, "return": None}
        self._owner.__init__ = init  # type: ignore[misc]
        return init.__get__(value, owner)


def _refuse(self: object, name: str, value: object = None) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be changed")


class _Fields:
    """`__dataclass_fields__`, made when a function of `dataclasses` looks for it."""

    def __init__(self, kinds: dict[str, str], defaults: dict[str, object]) -> None:
        self._kinds = kinds
        self._defaults = defaults

    def __get__(self, value: object, owner: type) -> dict[str, Field[Any]]:
        from dataclasses import field, make_dataclass

        fields = [
            (name, kind, field(default_factory=partial(self._defaults.get, name)))
            if name in self._defaults
            else (name, kind, field())
            for name, kind in self._kinds.items()
        ]
        same: Any = make_dataclass(owner.__name__, fields)
        return same.__dataclass_fields__  # type: ignore[no-any-return]
