"""How exact models state a price: composed with sums of losses, or of a variable that is at least the sum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from convexrank.core.elementwise_checks import model_form, stated
from convexrank.losses import Loss
from convexrank.prices import Price

__all__ = ["PriceModel"]

# Derivatives that a nonlinear model may hold, of 70 bytes each.
_MOST_DERIVATIVES = 50_000_000


@dataclass(frozen=True)
class PriceModel:
    """A price in the form in which cvxpy can state it.

    Parameters
    ----------
    price : Price
        The price g.
    in_log : bool
        Whether the argument is the logarithm of a sum, so that the model states h(a) = g(exp a).
    form : str
        As :func:`convexrank.core.elementwise_checks.model_form` names it.
    """

    price: Price
    in_log: bool
    form: str

    @classmethod
    def of(cls, price: Price, loss: Loss, in_log: bool = True) -> PriceModel:
        """Find the form for a loss: of h if ``in_log`` and the loss factorises, else of g."""
        in_log = in_log and loss.factorises
        return cls(price, in_log, model_form(price.h if in_log else price.g, in_log))

    @property
    def other(self) -> PriceModel:
        """The same with a variable for each sum of losses."""
        return replace(self, form="epigraph") if self.form == "composed" and not self.in_log else self

    def state(self, argument: Any, at_zero: Any, terms: int) -> tuple[Any, list[Any]]:
        """Return the price of each sum, or of each logarithm of one, and constraints, for cvxpy.

        Parameters
        ----------
        argument : cvxpy.Expression, shape (n,)
            The sums, or their logarithms.
        at_zero : float or ndarray, shape (n,)
            Their values at w = 0.
        terms : int
            Number of losses in all sums.

        Raises
        ------
        ValueError
            When a nonlinear model would not fit into memory.
        """
        if self.form == "nonlinear" and argument.shape[0] * terms > _MOST_DERIVATIVES:
            raise ValueError(
                f"the exact model has {argument.shape[0]} prices of {terms} losses in all, and a nonlinear solver "
                f"holds a derivative for each price and loss, expected at most {_MOST_DERIVATIVES}; take fewer rows, a "
                "fast solver, or atoms that cvxpy knows to be convex, such as atoms.square(r) for r * r."
            )
        return stated(self.price.h if self.in_log else self.price.g, argument, self.form, at_zero)
