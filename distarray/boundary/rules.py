"""What one condition does to one component at one face: the formulas, and their replay on prepared
views.

A rule is made from a condition on all ranks alike, and checked then. It tells what a fill reads
(`sources`) and prepares the fill of a region: ufuncs on prepared views, each operation rounded
once, so that the bits do not depend on which rank or device fills. Coefficients are computed on the
host; those that do not change are brought to the block's device once, those of functions at every
new time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from distarray.backends.base import Backend
from distarray.block import Block
from distarray.boundary.conditions import (
    Condition,
    Dirichlet,
    Extrapolate,
    Neumann,
    Robin,
    Symmetry,
    Unset,
)
from distarray.boundary.face import Face, Region
from distarray.boundary.renewal import renewal
from distarray.boundary.values import FaceValue, cast, evaluate
from distarray.errors import BoundaryError
from distarray.geometry import along
from distarray.layout import Component

if TYPE_CHECKING:
    from distarray.array import DistArray

#: Work that was prepared, to be done by one call.
Call = Callable[[], None]

#: Where and whether points are fixed: (mask function, its wanted answer) of each enclosing
#: Piecewise.
Masks = tuple[tuple[Callable[..., Any], bool], ...]


@dataclass(frozen=True, eq=False)
class Source:
    """Values that a fill reads.

    `depth` values inside count from the face, `layers` says whether layers of the same number are
    read. `shift` is the offset along the other axes. `array` is None for the array that is filled.
    """

    component: Component
    depth: int
    shift: tuple[int, ...]
    array: DistArray | None = None
    layers: bool = False


@dataclass
class Steps:
    """A prepared fill: `updates` evaluate functions at a time, `calls` write the layers."""

    updates: list[Callable[[float], None]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    _updated: float | None = None

    def extend(self, other: Steps) -> None:
        self.updates.extend(other.updates)
        self.calls.extend(other.calls)

    def update(self, time: float) -> None:
        """Evaluate functions, if the time is not that of the last evaluation."""
        if self._updated != time:
            for update in self.updates:
                update(time)
            self._updated = time

    def run(self, time: float) -> None:
        """Write the layers as they are at a time."""
        with np.errstate(all="ignore"):
            self.update(time)
            for call in self.calls:
                call()


class Rule(Protocol):
    """A condition for one component at one face."""

    face: Face

    @property
    def time_dependent(self) -> bool:
        """Whether the layers may change with time alone."""
        ...

    @property
    def calls_functions(self) -> bool:
        """Whether functions of the user are called: values that are functions, or a mask."""
        ...

    def try_functions(self, region: Region, time: float) -> None:
        """Call them on a region, and check what they return. Local."""
        ...

    def sources(self, layers: int) -> list[Source]:
        """What filling this many layers reads."""
        ...

    def prepare(self, region: Region, target: Any, block: Block) -> Steps:
        """The fill of `target`, whose axis along the face's holds layer 1, 2, ... Local."""
        ...

    def fixes(self) -> Iterator[tuple[FaceValue, Masks]]:
        """Values that points lying on the face are fixed to, and where."""
        ...

    @property
    def fixes_all(self) -> bool:
        """Whether every point lying on the face is fixed."""
        ...


class SimpleRule(ABC):
    """What rules share that read the component itself straight inward."""

    kind: str
    time_dependent = False
    calls_functions = False
    fixes_all = False

    def __init__(self, face: Face, component: Component) -> None:
        self.face, self.component = face, component

    @abstractmethod
    def depth(self, layers: int) -> int:
        """How far inward filling this many layers reads."""

    def sources(self, layers: int) -> list[Source]:
        return [Source(self.component, self.depth(layers), (0,) * self.face.layout.ndim)]

    def fixes(self) -> Iterator[tuple[FaceValue, Masks]]:
        return iter(())

    def try_functions(self, region: Region, time: float) -> None:  # noqa: B027 - most have none
        pass

    def cast(self, values: Any) -> Any:
        """Coefficients in the array's dtype; real ones of a complex array stay real."""
        dtype = self.face.layout.dtype
        if dtype.kind == "c" and np.asarray(values).dtype.kind != "c":
            dtype = np.dtype(dtype.type(0).real.dtype)
        return cast(values, dtype, self.face, self.kind)

    def check_number(self) -> None:
        if self.face.layout.dtype.kind == "b":
            raise BoundaryError(
                f"{self.kind} on {self.face.name} needs arithmetic, which an array of bool has "
                "not; "
                "use Symmetry(1) or Outflow()."
            )


class MirrorRule(SimpleRule):
    """Kinds that compute layer m from its mirror value w: alpha + beta w."""

    def __init__(
        self, face: Face, component: Component, kind: str, values: tuple[Any, ...]
    ) -> None:
        super().__init__(face, component)
        self.kind = kind
        self.values = tuple(FaceValue(value, face, kind) for value in values)
        self.time_dependent = any(value.time_dependent for value in self.values)
        self.calls_functions = self.time_dependent
        self.check_number()
        if not self.time_dependent:
            self.try_functions(face.whole(), 0.0)

    def try_functions(self, region: Region, time: float) -> None:
        """Compute what a fill, or the fixing of points, computes of the values."""
        layers = max(1, self.face.layout.halo[self.face.axis])
        self.cast_coefficients(region, region.layer_distances(layers), time)
        for value, _ in self.fixes():
            self.cast(value.on(region, time))

    def cast_coefficients(self, region: Region, distances: Any, time: float) -> tuple[Any, Any]:
        """The coefficients in the array's dtype."""
        alpha, beta = self.coefficients(region, distances, time)
        return self.cast(alpha), beta if isinstance(beta, int) else self.cast(beta)

    @abstractmethod
    def coefficients(self, region: Region, distances: Any, time: float) -> tuple[Any, Any]:
        """Alpha and beta of each layer in double precision, an exact 1 or -1 as a Python int."""

    def depth(self, layers: int) -> int:
        return layers + self.face.on_face

    def prepare(self, region: Region, target: Any, block: Block) -> Steps:
        mirror = region.inner(
            block.component(self.component), int(self.face.on_face), region.layers
        )
        compute = partial(self.cast_coefficients, region, region.distances())
        backend = block.backend
        if not self.time_dependent:
            alpha, beta = compute(0.0)
            if not isinstance(beta, int):
                beta = operand(backend, beta)
            return Steps([], linear(backend, operand(backend, alpha), beta, mirror, target))
        alpha = backend.empty(region.shape, target.dtype)
        beta = self.fixed_beta or backend.empty(region.shape, target.dtype)

        renew_alpha = renewal(backend, alpha)
        renew_beta = None if isinstance(beta, int) else renewal(backend, beta)

        def update(time: float) -> None:
            new_alpha, new_beta = compute(time)
            renew_alpha(new_alpha)
            if renew_beta is not None:
                renew_beta(new_beta)

        return Steps([update], linear(backend, alpha, beta, mirror, target))

    fixed_beta: int = 0


class DirichletRule(MirrorRule):
    """Layer m = 2 g - w."""

    fixed_beta = -1

    def coefficients(self, region: Region, distances: Any, time: float) -> tuple[Any, Any]:
        return 2.0 * self.values[0].on(region, time), -1

    @property
    def fixes_all(self) -> bool:  # type: ignore[override]
        return self.face.on_face

    def fixes(self) -> Iterator[tuple[FaceValue, Masks]]:
        if self.face.on_face:
            yield self.values[0], ()


class NeumannRule(MirrorRule):
    """Layer m = w + d_m g."""

    fixed_beta = 1

    def coefficients(self, region: Region, distances: Any, time: float) -> tuple[Any, Any]:
        return distances * self.values[0].on(region, time), 1


class RobinRule(MirrorRule):
    """Layer m = 2 c d / (a d + 2 b) + (2 b - a d) / (a d + 2 b) w."""

    def coefficients(self, region: Region, distances: Any, time: float) -> tuple[Any, Any]:
        a, b, c = (value.on(region, time) for value in self.values)
        scale = a * distances + 2.0 * b
        if not np.all(scale):
            raise BoundaryError(
                f"Robin on {self.face.name} has a d + 2 b = 0 with d the distance of a layer from "
                "its mirror point, "
                "so that no layer value satisfies it; change a or b."
            )
        return 2.0 * c * distances / scale, (2.0 * b - a * distances) / scale


class SymmetryRule(SimpleRule):
    """Layer m = sign w."""

    kind = "Symmetry"

    def __init__(self, face: Face, component: Component, sign: Any) -> None:
        super().__init__(face, component)
        if isinstance(sign, tuple):
            raise BoundaryError(
                f"Symmetry on {face.name} has {len(sign)} signs, which only an array with that "
                "many components takes; "
                "give 1 or -1."
            )
        self.sign = int(sign)
        if sign != 1:
            self.check_number()

    def depth(self, layers: int) -> int:
        return layers + self.face.on_face

    def prepare(self, region: Region, target: Any, block: Block) -> Steps:
        mirror = region.inner(
            block.component(self.component), int(self.face.on_face), region.layers
        )
        backend = block.backend
        if self.sign == 1:
            return Steps([], [assign(backend, mirror, target)])
        # Not np.negative, which is wrong for some strides (64 bytes in NumPy 2.4).
        nothing = (-np.zeros((), target.dtype))[()]
        return Steps([], [backend.prepare_map(np.subtract, [nothing, mirror], target)])


class ExtrapolateRule(SimpleRule):
    """The polynomial through the nearest values, as a sum of Lagrange weights times values."""

    kind = "Extrapolate"

    def __init__(self, face: Face, component: Component, degree: int) -> None:
        super().__init__(face, component)
        self.degree = degree
        if degree >= face.points:
            raise BoundaryError(
                f"Extrapolate({degree}) on {face.name} needs {degree + 1} points along the axis, "
                "which has "
                f"{face.points}; use degree {face.points - 1} or less."
            )
        if degree:
            self.check_number()
            for number in range(degree + 1):
                self.cast(self.weights(number, max(1, face.layout.halo[face.axis])))

    def depth(self, layers: int) -> int:
        return self.degree + 1

    def weights(self, number: int, layers: int) -> Any:
        """Lagrange weight of the value at inward position `number` in each layer."""
        found = [self._weight(number, layer) for layer in range(1, layers + 1)]
        return along(np.array(found, np.float64), self.face.axis, self.face.layout.ndim)

    def _weight(self, number: int, layer: int) -> float:
        face = self.face
        if face.axes[face.axis].spacing is not None:
            place: float = -layer
            nodes: list[float] = list(range(self.degree + 1))
        else:
            place = -0.5 * face.mirror_distance(layer)
            nodes = [face.distance(inward) for inward in range(self.degree + 1)]
        above, below = 1.0, 1.0
        for other, node in enumerate(nodes):
            if other != number:
                above *= place - node
                below *= nodes[number] - node
        return above / below

    def prepare(self, region: Region, target: Any, block: Block) -> Steps:
        memory = block.component(self.component)
        values = [region.inner(memory, number, 1) for number in range(self.degree + 1)]
        backend = block.backend
        if not self.degree:
            return Steps([], [assign(backend, values[0], target)])
        weights = [
            operand(backend, self.cast(self.weights(number, region.layers)))
            for number in range(self.degree + 1)
        ]
        calls = multiply(backend, weights[0], values[0], target)
        scratch = backend.empty(region.shape, target.dtype)
        for weight, value in zip(weights[1:], values[1:], strict=True):
            calls += multiply(backend, weight, value, scratch)
            calls.append(backend.prepare_map(np.add, [target, scratch], target))
        return Steps([], calls)


class PiecewiseRule:
    """One rule where a mask of the face coordinates is true, another elsewhere."""

    def __init__(self, mask: Callable[..., Any], first: Rule, second: Rule) -> None:
        self.mask, self.first, self.second = mask, first, second
        self.face = first.face

    @property
    def time_dependent(self) -> bool:
        return self.first.time_dependent or self.second.time_dependent

    @property
    def fixes_all(self) -> bool:
        return self.first.fixes_all and self.second.fixes_all

    calls_functions = True

    def try_functions(self, region: Region, time: float) -> None:
        mask_on(region, ((self.mask, True),))
        self.first.try_functions(region, time)
        self.second.try_functions(region, time)

    def sources(self, layers: int) -> list[Source]:
        return self.first.sources(layers) + self.second.sources(layers)

    def fixes(self) -> Iterator[tuple[FaceValue, Masks]]:
        for rule, wanted in ((self.first, True), (self.second, False)):
            for value, masks in rule.fixes():
                yield value, ((self.mask, wanted), *masks)

    def prepare(self, region: Region, target: Any, block: Block) -> Steps:
        rest = mask_on(region, ((self.mask, False),))
        backend = block.backend
        where = backend.asarray(np.ascontiguousarray(np.broadcast_to(rest, region.shape)))
        other = backend.empty(region.shape, target.dtype)
        steps = self.first.prepare(region, target, block)
        steps.extend(self.second.prepare(region, other, block))
        steps.calls.append(assign(backend, other, target, where))
        return steps


def mask_on(region: Region, masks: Masks) -> Any:
    """Booleans over one layer of the region: where every mask answers as wanted. Local."""
    result = np.ones(region.plane, bool)
    for function, wanted in masks:
        answer = evaluate(function, region, (), "The mask of Piecewise")
        if answer.dtype != bool:
            raise BoundaryError(
                f"The mask of Piecewise on {region.face.name} returned {answer.dtype}; return "
                "bool, as a comparison of coordinates does."
            )
        result &= answer == wanted
    return result


def operand(backend: Backend, values: Any) -> Any:
    """Coefficients as calls take them: a number, or an array on the device. Local."""
    values = np.asarray(values)
    return backend.asarray(values) if values.ndim else values[()]


def assign(backend: Backend, values: Any, target: Any, where: Any = None) -> Call:
    """The call that gives `target` these values, where `where` is true. Local."""
    return backend.prepare_map(np.copyto, [values], target, where)


def linear(backend: Backend, alpha: Any, beta: Any, values: Any, target: Any) -> list[Call]:
    """Calls that compute target = alpha + beta * values. Local."""
    if isinstance(beta, int):
        operands = (values, alpha) if beta == 1 else (alpha, values)
        return [backend.prepare_map(np.add if beta == 1 else np.subtract, operands, target)]
    return [
        *multiply(backend, beta, values, target),
        backend.prepare_map(np.add, [target, alpha], target),
    ]


def multiply(backend: Backend, factor: Any, values: Any, target: Any) -> list[Call]:
    """Calls that compute target = factor * values; complex products by their real expansion (see
    `complexmath`). Local.
    """
    prepare = backend.prepare_map
    if target.dtype.kind != "c":
        return [prepare(np.multiply, [factor, values], target)]
    a, b, c, d = values.real, values.imag, factor.real, factor.imag
    if factor.dtype.kind != "c":
        return [
            prepare(np.multiply, [a, c], target.real),
            prepare(np.multiply, [b, c], target.imag),
        ]
    one, other = (backend.empty(target.shape, target.real.dtype) for _ in range(2))
    return [
        prepare(np.multiply, [a, c], one),
        prepare(np.multiply, [b, d], other),
        prepare(np.subtract, [one, other], target.real),
        prepare(np.multiply, [a, d], one),
        prepare(np.multiply, [b, c], other),
        prepare(np.add, [one, other], target.imag),
    ]


class UnsetRule(SimpleRule):
    """An error for all ranks that ask what would be filled or fixed."""

    kind = "Unset"

    def __init__(self, face: Face, component: Component, condition: Unset) -> None:
        super().__init__(face, component)
        self.message = condition.message
        self.unknown_points = condition.fixes and bool(face.on_face)

    def depth(self, layers: int) -> int:
        raise BoundaryError(self.message)

    def prepare(self, region: Region, target: Any, block: Block) -> Steps:
        raise BoundaryError(self.message)


def simple_rule(condition: Condition, face: Face, component: Component) -> Rule:
    """The rule of a condition other than Piecewise and Custom, for one component."""
    match condition:
        case Dirichlet(value):
            return DirichletRule(face, component, "Dirichlet", (value,))
        case Neumann(value):
            return NeumannRule(face, component, "Neumann", (value,))
        case Robin(a, b, c):
            return RobinRule(face, component, "Robin", (a, b, c))
        case Symmetry(sign):
            return SymmetryRule(face, component, sign)
        case Extrapolate(degree):
            return ExtrapolateRule(face, component, degree)
        case Unset():
            return UnsetRule(face, component, condition)
    raise BoundaryError(
        f"{type(condition).__name__} on {face.name} is no kind of condition that can be filled; "
        "use one of those that distarray has, or Custom with a kernel."
    )
