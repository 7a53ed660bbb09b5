"""How exact models state a price: composed with sums of losses, or of a variable that is at least the sum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from convexrank.core.elementwise_checks import model_form, stated
from convexrank.losses import Loss
from convexrank.prices import Price

__all__ = ["PriceModel"]


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

    def state(self, argument: Any, at_zero: Any) -> tuple[Any, list[Any]]:
        """Return the price of each sum, or of each logarithm of one, and constraints, for cvxpy.

        Parameters
        ----------
        argument : cvxpy.Expression, shape (n,)
            The sums, or their logarithms.
        at_zero : float or ndarray, shape (n,)
            Their values at w = 0.
        """
        return stated(self.price.h if self.in_log else self.price.g, argument, self.form, at_zero)
