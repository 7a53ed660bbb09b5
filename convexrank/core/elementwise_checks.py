"""Is a function of one variable non-negative, convex and non-decreasing? By disciplined rules, else on a grid."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from convexrank.atoms import is_cvxpy
from convexrank.backend.compilation import jit
from convexrank.backend.jax_oracles import with_x64
from convexrank.data.messages import shown

Array = np.ndarray
Function = Callable[[Any], Any]

# A second difference may come out negative by rounding only; beyond this fraction of the function's size it is real.
_ROUNDING = 1e-9
# A jump of the slope, as a fraction of the slope nearby, that still counts once the interval around it has shrunk to
# 2⁻³⁶ of its width.
_JUMP, _HALVINGS = 1e-7, 36


def check_words(**texts: Any) -> None:
    """Refuse what is no word for a function.

    Raises
    ------
    TypeError
        When one of the texts is neither a word nor None.
    """
    for name, text in texts.items():
        if text is not None and not (isinstance(text, str) and text.strip()):
            raise TypeError(f"{name} is {shown(text)}, expected a word, or None for the function's own name.")


def apply(function: Function, x: Any) -> Any:
    """Apply a user's function to an array, or to a cvxpy expression with a clear error where cvxpy cannot read it.

    Raises
    ------
    ValueError
        When there is no cvxpy form, or one that is not elementwise: to cvxpy ``r * r`` is an inner product.
    """
    if not is_cvxpy(x):
        return function(x)
    try:
        with warnings.catch_warnings(action="error", category=UserWarning):
            model = function(x)
            if np.shape(model) != x.shape:
                raise ValueError(f"the result has shape {np.shape(model)} for input shape {x.shape}")
    except Exception as error:
        raise ValueError(
            f"cvxpy cannot read this function ({type(error).__name__}: {_first_line(error)}), so there is no exact "
            "model; write it with convexrank.atoms (a product of two expressions as atoms.square or atoms.power), or "
            "use a fast solver."
        ) from error
    return model


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def follows_disciplined_rules(function: Function, argument: Any, convex_argument: Any) -> bool:
    """Return whether cvxpy can prove the function convex and non-decreasing.

    Convexity is asked of ``function(argument)``. Monotonicity follows from the composition rule: with a convex,
    not affine argument the result is recognised as convex only if the function is non-decreasing. That argument may
    not have a sign known to cvxpy that ``argument`` has not.
    """
    try:
        plain, composed = function(argument), function(convex_argument)
    except Exception:  # noqa: BLE001 - anything may happen in a user's function, and cvxpy raises bare Exceptions
        return False  # made of something that cvxpy cannot read: the grid decides
    return bool(
        getattr(plain, "is_convex", lambda: False)() and getattr(composed, "is_convex", lambda: False)()
    )


def model_form(function: Function, signed: bool) -> str:
    """Find how cvxpy states a non-decreasing convex function of a convex argument.

    ``"composed"``: by its rules, as it stands. ``"epigraph"``: the function is convex by its rules, but not known to be
    non-decreasing; since it is, its minimum over t ≥ argument is the same. ``"nonlinear"``: likewise, and convexity is
    beyond its rules: for a nonlinear solver. ``""``: cvxpy cannot read it.

    Parameters
    ----------
    function : callable
        Acts elementwise.
    signed : bool
        Whether its argument may be negative.
    """
    import cvxpy as cp

    x, t = cp.Variable(2), cp.Variable(2, nonneg=not signed)
    convex_argument = cp.exp(x) - 1.0 if signed else cp.square(x)
    try:
        for form, argument in (("composed", convex_argument), ("epigraph", t)):
            with warnings.catch_warnings(action="ignore"):
                # a product of vectors is taken for an inner one, and no convex one
                if _is_convex(function, argument):
                    return form
        one = _without_log1p(function(t[0]))
        return "nonlinear" if one.shape == () and cp.Problem(cp.Minimize(one)).is_dnlp() else ""
    except Exception:  # noqa: BLE001 - anything may happen in a user's function, and cvxpy raises bare Exceptions
        return ""


def _is_convex(function: Function, argument: Any) -> bool:
    try:
        found = function(argument)
    except Exception:  # noqa: BLE001 - see model_form
        return False
    return bool(getattr(found, "is_convex", lambda: False)()) and found.shape == argument.shape


class Limits(list[Any]):
    """Constraints of a model, and the variables that some of them lift.

    Attributes
    ----------
    lifted : list of (cvxpy.Variable, cvxpy.Expression)
        Each variable has to be at least its expression, and nothing in the model decreases as it rises.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lifted: list[tuple[Any, Any]] = []


def stated(function: Function, argument: Any, form: str, start: Any, limits: Limits) -> Any:
    """State a non-decreasing convex function of a convex argument for cvxpy, elementwise: the cost.

    Parameters
    ----------
    function : callable
        Acts elementwise.
    argument : cvxpy.Expression, shape (n,)
        Convex.
    form : str
        What :func:`model_form` found.
    start : float or ndarray, shape (n,)
        A value of the argument, where a nonlinear solver may begin; negative only if the argument may be.
    limits : Limits
        Takes the constraints, and the variable that is made.
    """
    if form in ("composed", ""):
        return function(argument)
    import cvxpy as cp

    t = cp.Variable(argument.shape[0], nonneg=argument.is_nonneg())
    t.value = np.full(t.shape, start) + 1.0
    limits.append(t >= argument)
    limits.lifted.append((t, argument))
    if form == "epigraph":
        return function(t)
    return cp.hstack([_without_log1p(function(t[k])) for k in range(t.shape[0])])


def _without_log1p(expression: Any) -> Any:
    """Write log(1 + x) for log1p(x), which cvxpy's nonlinear interface does not know."""
    import cvxpy as cp

    if isinstance(expression, cp.log1p):
        return cp.log(1.0 + _without_log1p(expression.args[0]))
    return (
        expression.copy([_without_log1p(part) for part in expression.args]) if expression.args else expression
    )


def check_slopes(function: Any) -> None:
    """Refuse a :class:`convexrank.modelling.Function` that is not convex on a grid, or not what it states.

    Raises
    ------
    ValueError
        When values and slopes are no two arrays of numbers, slopes are none of a convex function, or monotony or a
        bound is wrong; the message names the place.
    """
    grid, what = np.linspace(-30.0, 30.0, 241), f"the function {function.name}"
    with np.errstate(all="ignore"):
        found = function.slopes(grid.copy())
    if not isinstance(found, tuple) or [np.shape(part) for part in found] != [grid.shape] * 2:
        raise ValueError(
            f"slopes of {what} gives {shown(found)}, expected a tuple of values and derivatives, both of the shape of "
            "its argument."
        )
    values, slopes = (np.asarray(part, dtype=np.float64) for part in found)
    if (wrong := np.isnan(values) | np.isnan(slopes)).any():
        raise ValueError(f"{what} is NaN at {grid[wrong][0]:.4g}; it must be defined for all numbers.")
    usable = np.isfinite(values) & np.isfinite(slopes)
    x, values, slopes = grid[usable], values[usable], slopes[usable]
    slack = _ROUNDING * (1.0 + np.abs(values) + np.abs(slopes))

    def refuse(wrong: Array, message: str, after: int = 0) -> None:
        if wrong.any():
            raise ValueError(f"{what} {message.format(x[int(np.argmax(wrong)) + after])}.")

    rises = np.diff(values) / np.diff(x)
    pairs = slack[1:] + slack[:-1]
    refuse(np.diff(rises) < -8.0 * (pairs[1:] + pairs[:-1]), "is not convex around {:.4g}", 1)
    wrong = (rises < slopes[:-1] - 8.0 * pairs) | (rises > slopes[1:] + 8.0 * pairs)
    refuse(wrong, "has other slopes than it states near {:.4g}; check its slopes")
    if function.increasing:
        refuse(slopes < -slack, "decreases at {:.4g}; give increasing=False")
    refuse(values < function.least - slack, f"is below its least, {function.least:g}, at {{:.4g}}")
    refuse(slopes > function.most + slack, f"has a slope above its most, {function.most:g}, at {{:.4g}}")


class OnGrid:
    """A function and its first two derivatives on a grid, compiled by JAX once, as the fast oracles will be.

    Parameters
    ----------
    function : callable
        Acts elementwise on arrays.
    grid : ndarray
        Increasing points.
    what : str
        Name of the function in messages.

    Attributes
    ----------
    values : ndarray
        The function on the whole grid.

    Raises
    ------
    ValueError
        When JAX cannot trace the function, or it does not act on each entry by itself.
    """

    def __init__(self, function: Function, grid: Array, what: str) -> None:
        self._grid, self._what = grid, what
        self._points = _with_middles(grid[:-1], grid[1:])
        points = self._points.ravel()
        try:
            self._compiled = _compile(function)
            together, alone, *_ = self._at(points)
        except Exception as error:
            raise ValueError(
                f"{what} could not be evaluated on a JAX array ({type(error).__name__}: {_first_line(error)}); write "
                "it with convexrank.atoms and arithmetic. Functions of numpy and math, and Python's if, max and min, "
                "do not work there: use atoms.maximum and atoms.positive."
            ) from error
        if together.shape != points.shape or alone.shape != points.shape:
            raise ValueError(
                f"{what} returned shape {together.shape} for input shape {points.shape}; it must act elementwise."
            )
        differ = ~np.isclose(together, alone, rtol=_ROUNDING, atol=0.0, equal_nan=True)
        if differ.any():
            place = int(np.argmax(differ))
            raise ValueError(
                f"{what} is not elementwise: at {points[place]:.4g} it is {alone[place]:.6g} alone, but "
                f"{together[place]:.6g} as one of many; atoms.sum and atoms.log_sum_exp have no place in it."
            )
        self.values = np.append(alone[: len(grid) - 1], alone[-1])

    def _at(self, points: Array) -> list[Array]:
        """Values of all points together and of each alone, slopes and second derivatives."""

        with with_x64():
            return [np.array(values, dtype=np.float64) for values in self._compiled(points)]

    def check(self, convex: bool = True, falls: str = "") -> None:
        """Raise a ValueError that says what fails and where, if a property is violated on the grid.

        Points where the function overflows are left out.

        Parameters
        ----------
        convex : bool
            Whether convexity is asked for, besides being non-negative and monotone.
        falls : str
            Why the function must not increase, for the message; by default it must not decrease.
        """
        grid, values, what = self._grid, self.values, self._what
        if np.isnan(values).any():
            raise ValueError(
                f"{what} is NaN at {grid[np.isnan(values)][0]:.4g}; it must be defined for all such values."
            )
        usable = values < np.inf
        grid, values = grid[usable], values[usable]
        if len(grid) < 3:
            raise ValueError(f"{what} is finite at {len(grid)} of the points tried; it must be finite.")
        # the typical size: that of the largest values says nothing about rounding elsewhere
        negative = values < -_ROUNDING * max(float(np.median(np.abs(values))), 1e-12)
        if negative.any():
            place = int(np.argmax(negative))
            raise ValueError(
                f"{what} is negative: {values[place]:.6g} at {grid[place]:.4g}; it must be at least 0."
            )
        scale, gaps = np.maximum(np.abs(values), 1e-12), np.diff(grid)
        steps = -np.diff(values) if falls else np.diff(values)
        wrong = steps < -_ROUNDING * np.maximum(scale[1:], scale[:-1])
        if wrong.any():
            place = int(np.argmax(wrong))
            way = "increasing" if falls else "decreasing"
            raise ValueError(
                f"{what} is {way}: from {values[place]:.6g} at {grid[place]:.4g} to {values[place + 1]:.6g} at "
                f"{grid[place + 1]:.4g}; {falls or 'it must be non-decreasing'}."
            )
        if not convex:
            return
        slopes = np.diff(values) / gaps
        # each slope carries the rounding of two values; compare against that, not against the slope's own size
        noise = 4e-15 * (scale[1:] + scale[:-1]) / gaps
        allowed = _ROUNDING * np.maximum(np.abs(slopes[1:]), np.abs(slopes[:-1])) + noise[1:] + noise[:-1]
        bends = np.diff(slopes) < -allowed
        if bends.any():
            place = int(np.argmax(bends))
            raise ValueError(
                f"{what} is not convex: its slope falls from {slopes[place]:.6g} to {slopes[place + 1]:.6g} "
                f"around {grid[place + 1]:.4g}; it must be convex."
            )

    def kink(self, after: int = 0) -> float | None:
        """Return a point after so many intervals of the grid where the slope jumps, or None when none is found.

        In each interval the change of the slope is compared with what the second derivative explains. The half that
        leaves more unexplained is kept, again and again: for a continuous slope the rest shrinks with the interval, a
        jump stays. At most one kink an interval is looked for, and jumps below 1e-7 of the slope are not seen.
        """
        points, size = self._points, None
        with np.errstate(invalid="ignore", over="ignore"):
            for _ in range(_HALVINGS):
                slopes, bends = (values.reshape(points.shape) for values in self._at(points.ravel())[2:])
                slopes[:, :after] = np.nan
                explained = 0.5 * np.diff(points, axis=0) * (bends[1:] + bends[:-1])
                unexplained = np.abs(np.diff(slopes, axis=0) - explained)
                size = np.abs(slopes).max(axis=0) if size is None else size
                # overflow, infinite slopes at the end of the domain, and what is left out, give NaN: no finding
                jumps = np.isfinite(unexplained).all(axis=0) & (unexplained.max(axis=0) > _JUMP * size)
                if not jumps.any():
                    return None
                upper = unexplained[1] > unexplained[0]
                left, middle, right = points
                points = _with_middles(np.where(upper, middle, left), np.where(upper, right, middle))
        return float(points[0, np.argmax(jumps)])


def _with_middles(left: Array, right: Array) -> Array:
    return np.stack([left, 0.5 * (left + right), right])


def _compile(function: Function) -> Function:
    """Compile what :class:`OnGrid` asks for, with derivatives of each entry by itself."""
    import jax
    import jax.numpy as jnp

    def alone(x: Any) -> tuple[Any, Any]:
        value = jnp.asarray(function(x))
        return 1.0 * jnp.sum(value), value

    def both(x: Any) -> tuple[Any, ...]:
        forward = jax.vmap(
            lambda x: jax.jvp(jax.value_and_grad(alone, has_aux=True), (x,), (jnp.ones_like(x),))
        )
        ((_, values), slopes), (_, bends) = forward(x)
        return jnp.asarray(function(x)), values, slopes, bends

    # evaluated a few dozen times: XLA would take longer to optimise it than to run it
    return jit(both, small=True)
