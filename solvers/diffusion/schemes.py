"""Schemes in time: explicit Euler, and diagonally implicit Runge-Kutta schemes, all of whose
implicit stages have the same factor d and whose last stage is the result. Pure.

For du/dt = f(t, u) the stage i is

    u_i = u + dt sum_j a_ij f_j,   f_j = f(t + c_j dt, u_j),   a_ii = d, or 0 in a first stage

so that each implicit stage solves `(1 - d dt f') u_i = ...`. In terms of z = dt lambda:

- "explicit": 1 + z, stable down to z = -2;
- "crank-nicolson": (1 + z / 2) / (1 - z / 2), second order, not damped for large -z, where it
  changes sign from step to step (Crank, J., Nicolson, P. (1947) Proc. Camb. Phil. Soc. 43, 50-67);
- "tr-bdf2": trapezoidal rule, then backward differences; second order, L-stable (Bank, R. E. et al.
  (1985) IEEE Trans. Comput.-Aided Des. 4(4), 436-451; this form: Hosea, M. E., Shampine, L. F.
  (1996) Appl. Numer. Math. 20, 21-37);
- "sdirk2": second order, L-stable (Alexander, R. (1977) SIAM J. Numer. Anal. 14(6), 1006-1021);
- "backward-euler": 1 / (1 - z), first order, L-stable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Scheme:
    """A Runge-Kutta scheme: `times` c_i and `rows` a_ij, see above.

    Attributes
    ----------
    order : int
    damps : bool
        Whether it is L-stable.
    """

    name: str
    order: int
    damps: bool
    times: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]

    @property
    def implicit(self) -> float:
        """d; 0 for the explicit scheme."""
        return self.rows[-1][-1]


_GAMMA = 2.0 - math.sqrt(2.0)
_D = 0.5 * _GAMMA
_W = 0.25 * math.sqrt(2.0)

SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("explicit", 1, False, (0.0,), ((0.0,),)),
        Scheme("crank-nicolson", 2, False, (0.0, 1.0), ((0.0,), (0.5, 0.5))),
        Scheme("tr-bdf2", 2, True, (0.0, _GAMMA, 1.0), ((0.0,), (_D, _D), (_W, _W, _D))),
        Scheme("sdirk2", 2, True, (_D, 1.0), ((_D,), (1.0 - _D, _D))),
        Scheme("backward-euler", 1, True, (1.0,), ((1.0,),)),
    )
}
