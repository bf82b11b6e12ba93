"""Steps, arrays and options of iterate that do not fit."""

from __future__ import annotations

from typing import Any

import distarray as da
from tests.ranks.refusals import refuse

RANKS = (1, 3)
SELDOM = (1,)


@da.stencil
def lap(u: Any, new: Any, *, r: Any = 1.0) -> None:
    new[0, 0] = u[1, 0] + u[-1, 0] + r * u[0, 1]


@da.stencil
def needs(u: Any, new: Any, *, r: Any) -> None:
    new[0, 0] = r * u[0, 0]


KERNELS = {"lap": lap, "needs": needs}


def test_steps_of_iterate() -> None:
    refuse(
        da.ArrayError,
        {
            "da.iterate(lap, u, new, steps=-1)": (
                "steps of iterate must be a whole number from 0, got -1; correct it."
            ),
            "da.iterate(lap, u, new, steps=1.5)": (
                "steps of iterate must be a whole number from 0, got 1.5; correct it."
            ),
            'da.iterate(lap, u, new, steps="a")': (
                "steps of iterate must be a whole number from 0, got 'a'; correct it."
            ),
            "da.iterate(lap, u, new, steps=None)": (
                "steps of iterate must be a whole number from 0, got None; correct it."
            ),
        },
        KERNELS,
    )
    refuse(
        da.StencilError,
        {
            "da.iterate(3, u, new, steps=1)": (
                "The step of iterate must be a kernel made by da.stencil or a list of "
                "(kernel, positions), got 3; write [(kernel, (0, 1))]."
            ),
            "da.iterate([], u, new, steps=1)": (
                "The step of iterate is an empty list; pass at least one (kernel, positions)."
            ),
            'da.iterate("abc", u, new, steps=1)': (
                "The step of iterate must be a kernel made by da.stencil or a list of "
                "(kernel, positions), got 'abc'; write [(kernel, (0, 1))]."
            ),
            "da.iterate(lambda u, w: None, u, new, steps=1)": (
                "The step of iterate must be a kernel made by da.stencil or a list of "
                "(kernel, positions), got a function; write [(kernel, (0, 1))]."
            ),
            "da.iterate([lap], u, new, steps=1)": (
                "The step of iterate must be a kernel made by da.stencil or a list of "
                "(kernel, positions), got a list; write [(kernel, (0, 1))]."
            ),
            "da.iterate([(print, (0, 1))], u, new, steps=1)": (
                "A step of iterate must be a kernel made by da.stencil, got a "
                "builtin_function_or_method; decorate the function."
            ),
            "da.iterate([(lap, 3)], u, new, steps=1)": (
                "The step of iterate must be a kernel made by da.stencil or a list of "
                "(kernel, positions), got a list; write [(kernel, (0, 1))]."
            ),
            "da.iterate([(lap, (0, 5))], u, new, steps=1)": (
                "Position 5 of kernel 'lap' is outside the 2 arrays passed to iterate; use 0 to 1."
            ),
            "da.iterate([(lap, (0, -1))], u, new, steps=1)": (
                "Position -1 of kernel 'lap' is outside the 2 arrays passed to iterate; use 0 to 1."
            ),
            'da.iterate([(lap, ("a", "b"))], u, new, steps=1)': (
                "The step of iterate must be a kernel made by da.stencil or a list of "
                "(kernel, positions), got a list; write [(kernel, (0, 1))]."
            ),
            "da.iterate([(lap, (0, 0))], u, new, steps=1)": (
                "Kernel lap got one array as new and as u, writes new (here) and reads u[1, "
                "0]; pass two arrays, the second made by copy() if need be (iterate returns one of "
                "the arrays it was given)."
            ),
            "da.iterate([(lap, (0,))], u, new, steps=1)": (
                "Kernel lap takes 2 arrays (u, new), but got 1; pass one for each."
            ),
            "da.iterate(lap, u, u, steps=1)": (
                "Kernel lap got one array as new and as u, writes new (here) and reads u[1, "
                "0]; pass two arrays, the second made by copy() if need be (iterate returns one of "
                "the arrays it was given)."
            ),
        },
        KERNELS,
    )


def test_arrays_and_options_of_iterate() -> None:
    refuse(
        da.ArrayError,
        {
            "da.iterate(lap, u, new, steps=1, r=lambda: 1.0)": (
                "The function of scalar 'r' is called as f(step), but it takes no arguments; let "
                "it take these."
            ),
            "da.iterate(lap, u, new, steps=1, every=1, callback=lambda n, t: None)": (
                "The function of iterate(callback=) is called as f(steps_done, time, arrays), but "
                "it takes 2 arguments (n, t); let it take these."
            ),
            "da.iterate(lap, steps=1)": (
                "iterate got no arrays; pass the states, oldest first, the target last."
            ),
            "da.iterate(lap, u, 3, steps=1)": (
                "Rotation of iterate takes distributed arrays, got 3; make one with "
                "distarray.asarray."
            ),
            "da.iterate(lap, u, whole, steps=1)": (
                "Arrays 0 and 1 of iterate rotate and must agree in shape, dtype and "
                "location; they are $u and $whole."
            ),
            "da.iterate(lap, u, faces, steps=1)": (
                "Arrays 0 and 1 of iterate rotate and must agree in shape, dtype and "
                "location; they are $u and $faces."
            ),
            "da.iterate(lap, u, new, steps=1, rotate=(0, 5))": (
                "rotate of iterate must name different positions among its 2 arrays, got (0, "
                "5); use numbers from 0 to 1."
            ),
            "da.iterate(lap, u, new, steps=1, rotate=(0, 0))": (
                "rotate of iterate must name different positions among its 2 arrays, got (0, "
                "0); use numbers from 0 to 1."
            ),
            "da.iterate(lap, u, new, steps=1, rotate=3)": (
                "rotate of iterate must name different positions among its 2 arrays, got 3; "
                "use numbers from 0 to 1."
            ),
            'da.iterate(lap, u, new, steps=1, rotate="ab")': (
                "rotate of iterate must name different positions among its 2 arrays, got "
                "'ab'; use numbers from 0 to 1."
            ),
            "da.iterate(lap, u, new, steps=1, rotate=None)": (
                "rotate of iterate must name different positions among its 2 arrays, got "
                "None; use numbers from 0 to 1."
            ),
            "da.iterate(lap, u, new, steps=1, rotate=(0, -1))": (
                "rotate of iterate must name different positions among its 2 arrays, got (0, "
                "-1); use numbers from 0 to 1."
            ),
            "da.iterate(lap, u, new, steps=1, first=-1)": (
                "first of iterate must be a whole number from 0, got -1; correct it."
            ),
            "da.iterate(lap, u, new, steps=1, tile=0)": (
                "tile of iterate must be a number of steps from 1 or 'auto', got 0; use 'auto'."
            ),
            'da.iterate(lap, u, new, steps=1, tile="x")': (
                "tile of iterate must be a number of steps from 1 or 'auto', got 'x'; use 'auto'."
            ),
            "da.iterate(lap, u, new, steps=1, every=-1)": (
                "every of iterate must be a whole number from 0, got -1; correct it."
            ),
            "da.iterate(lap, u, new, steps=1, every=1.5)": (
                "every of iterate must be a whole number from 0, got 1.5; correct it."
            ),
            "da.iterate(lap, u, new, steps=1, callback=print)": (
                "iterate got a callback but every=0; say after how many steps it is called."
            ),
            "da.iterate(lap, u, new, steps=1, callback=3, every=1)": (
                "iterate(callback=) takes a function, got 3; pass one."
            ),
            'da.iterate(lap, u, new, steps=1, time="a")': (
                "time of iterate must be a number, got 'a'; correct it."
            ),
            'da.iterate(lap, u, new, steps=1, dt="a")': (
                "dt of iterate must be a number, got 'a'; correct it."
            ),
        },
        KERNELS,
    )
    refuse(
        da.StencilError,
        {
            "da.iterate(lap, u, other, steps=1)": (
                "Kernel lap got arrays of different grids: new is $other, beside $u, and "
                "their grids differ in bounds (((0.0, 2.0), (0.0, 1.0)) and ((0.0, 1.0), (0.0, "
                "1.0))); use "
                "arrays of one grid, or of grids related by coarsen()."
            ),
            "da.iterate(lap, u, new, steps=1, q=3)": (
                "Scalar 'q' of iterate is named by no kernel of the step; they name ['r']."
            ),
            'da.iterate(lap, u, new, steps=1, r="a")': (
                "Kernel lap got r='a', but a scalar must be a number; pass one, or an array "
                "as a positional argument."
            ),
            'da.iterate(lap, u, new, steps=1, r=lambda m: "a")': (
                "Kernel lap got r='a', but a scalar must be a number; pass one, or an array "
                "as a positional argument."
            ),
            "da.iterate(needs, u, new, steps=1)": (
                "Kernel needs needs the scalar 'r', which was not given; call it with r=value."
            ),
        },
        KERNELS,
    )
