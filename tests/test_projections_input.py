"""Bad input to the projections: what came, what was expected, where."""

from __future__ import annotations

import numpy as np
import pytest

from convexrank.projections import bounded_increments, isotonic, permutahedron

INF = np.inf
Z = np.array([1.0, 3.0, 2.0, 0.0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1.0, np.nan, 2.0], 0, 1), ValueError, r"z contains NaN or infinity \(1 NaN"),
        (([1.0, INF], 0, 1), ValueError, "1 infinite"),
        (([], 0, 1), ValueError, "z is empty"),
        ((np.ones((2, 2)), 0, 1), ValueError, r"z has shape \(2, 2\)"),
        ((np.array([1j, 2]), 0, 1), ValueError, "Complex"),
        ((Z, 2, 1), ValueError, r"lower\[0\] = 2 and upper\[0\] = 1 leave no increment"),
        ((Z, [0, 0, 1], [0, 1, 0.5]), ValueError, r"lower\[2\] = 1 and upper\[2\] = 0.5"),
        ((Z, INF, INF), ValueError, "infeasible"),
        ((Z, -INF, [0, -INF, 0]), ValueError, r"upper\[1\] = -inf"),
        ((Z, [0, np.nan, 0], 1), ValueError, r"lower\[1\] is NaN"),
        ((Z, np.nan, 1), ValueError, "lower is NaN"),
        ((Z, 0, [1, 2]), ValueError, r"upper has shape \(2,\), expected a number or shape \(3,\)"),
        ((Z, 0, np.ones((3, 1))), ValueError, r"upper has shape \(3, 1\)"),
        ((Z, None, 1), TypeError, "lower is None"),
        ((Z, 0, "1"), TypeError, "upper is '1'"),
        ((Z, 0, 1, [1, 1, 0, 1]), ValueError, r"weights\[2\] is 0, expected weights greater than 0"),
        ((Z, 0, 1, [1, -1, 0, 1]), ValueError, r"weights\[1\] is -1"),
        ((Z, 0, 1, [1, 1, 1]), ValueError, "weights has 3 entries, expected 4"),
        ((Z, 0, 1, [1, np.nan, 1, 1]), ValueError, "weights contains NaN"),
        ((Z, 0, 1, None, [1, 2]), ValueError, "groups has 2 entries, expected 4"),
        ((Z, 0, 1, None, np.ones((4, 1))), ValueError, r"groups has shape \(4, 1\)"),
        ((Z, 0, 1, None, [0, 1, np.nan, 1]), ValueError, "groups contains NaN"),
        ((Z, 0, 1, None, [0, "a", None, 1]), TypeError, "groups"),
        ((Z, 0, 1, None, None, (2, 1)), ValueError, r"bounds = \(2, 1\) holds no number"),
        ((Z, 0, 1, None, None, (np.nan, 1)), ValueError, "holds no number"),
        ((Z, 0, 1, None, None, (None, -INF)), ValueError, "holds no number"),
        ((Z, 0, 1, None, None, 3), TypeError, "expected a pair"),
        ((Z, 0, 1, None, None, ("0", 1)), TypeError, r"bounds\[0\] is '0'"),
        ((Z, 1, 2, None, None, (0, 2.5)), ValueError, r"from row 2 to row 3, where lower is 1"),
        ((Z, -INF, [-1, -2, -1], None, None, (0, 2.5)), ValueError, r"from row 1 to row 2.* upper is -2"),
        ((Z, [1, 5, 1], [2, 4, 2]), ValueError, r"lower\[1\] = 5 and upper\[1\] = 4"),
    ],
)
def test_bad_input_of_increments(arguments, error, message):
    with pytest.raises(error, match=message):
        bounded_increments(*arguments)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: isotonic([np.nan]), ValueError, "z contains NaN"),
        (lambda: isotonic(Z, [1, 2]), ValueError, "order has 2 entries, expected 4"),
        (lambda: isotonic(Z, [1, 2, INF, 0]), ValueError, "order contains NaN or infinity"),
        (lambda: isotonic(Z, weights=[1, 1, 1, 0]), ValueError, r"weights\[3\] is 0"),
        (lambda: isotonic(Z, groups=[1]), ValueError, "groups has 1 entries"),
        (lambda: isotonic(Z, increasing="yes"), TypeError, "increasing is 'yes'"),
        (lambda: isotonic(Z, increasing=1), TypeError, "expected True or False"),
        (lambda: isotonic(Z, bounds=(1, 0)), ValueError, "holds no number"),
        (lambda: isotonic(Z, bounds=None), TypeError, "expected a pair"),
        (lambda: isotonic(Z, bounds=(0, 1, 2)), TypeError, "expected a pair"),
        (lambda: permutahedron(Z, [1, 2]), ValueError, "y has 2 entries, expected 4"),
        (lambda: permutahedron(Z, [1, 2, np.nan, 0]), ValueError, "y contains NaN"),
        (lambda: permutahedron([], []), ValueError, "z is empty"),
        (lambda: permutahedron(Z, Z, [[1, 2, 3, 4]]), ValueError, "groups has shape"),
    ],
)
def test_bad_input_of_the_others(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_first_infeasible_place_counts_in_rows_of_the_group():
    z, groups = np.zeros(6), np.array([7, 3, 7, 3, 7, 3])
    # group 3 has rows 1, 3, 5: two steps of at least 2 do not fit into an interval of 3
    lower = [0.0, 2.0, 0.0, 2.0, 0.0]
    with pytest.raises(ValueError, match="from row 3 to row 5, where lower is 2"):
        bounded_increments(z, lower, INF, groups=groups, bounds=(0, 3))
    with pytest.raises(ValueError, match=r"lower\[3\] = 2 and upper\[3\] = 1 leave no increment after row 3"):
        bounded_increments(z, lower, [INF, INF, INF, 1.0, INF], groups=groups)


def test_what_stands_between_groups_is_ignored():
    s = bounded_increments([3.0, 1.0, 5.0, 2.0], [0.0, 9.0, 0.0], [INF, -9.0, INF], groups=[0, 0, 1, 1])
    np.testing.assert_array_equal(s, [2.0, 2.0, 3.5, 3.5])
    assert bounded_increments([4.0], 3.0, 1.0).tolist() == [4.0]
    assert bounded_increments([4.0], [], [], bounds=(None, 2)).tolist() == [2.0]


def test_bounds_that_meet_in_one_point_up_to_rounding_are_feasible():
    s = bounded_increments(np.zeros(11), 0.1, INF, bounds=(0.0, 1.0))
    np.testing.assert_allclose(s, np.linspace(0.0, 1.0, 11), atol=1e-12)
    s = bounded_increments(np.zeros(4), 1.0 / 3.0, INF, bounds=(7.0, 8.0))
    np.testing.assert_allclose(s, 7.0 + np.arange(4) / 3.0, atol=1e-12)
