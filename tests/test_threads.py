"""Threads for array operations, and those of BLAS beside them."""

from __future__ import annotations

import gc
import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from convexrank.backend import threads


def of_blas():
    """The threads of each BLAS."""
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def four_threads_of_blas(monkeypatch):
    monkeypatch.setattr(threads, "threads_available", lambda: 2)
    with threadpool_limits(4, user_api="blas"):
        if of_blas() != {4}:
            pytest.skip("this BLAS takes no number of threads.")
        yield


def test_blas_has_one_thread_beside_ours_and_its_own_number_afterwards():
    assert list(threads.in_threads(lambda part: (part, of_blas()), [1, 2, 3])) == [
        (1, {1}),
        (2, {1}),
        (3, {1}),
    ]
    assert of_blas() == {4}
    assert list(threads.in_threads(lambda part: of_blas(), [1])) == [{4}]


def test_it_is_restored_after_an_error_and_where_results_are_left():
    def fail(part):
        raise ValueError(part)

    with pytest.raises(ValueError, match="1"):
        list(threads.in_threads(fail, [1, 2]))
    assert of_blas() == {4}
    for result in threads.in_threads(lambda part: part, [1, 2]):
        assert (result, of_blas()) == (1, {1})
        break
    gc.collect()
    assert of_blas() == {4}


def test_the_last_of_several_users_restores_it():
    first, second = (threads.in_threads(lambda part: part, [1, 2]) for _ in range(2))
    assert (next(first), next(second)) == (1, 1)
    assert list(first) == [2]
    assert of_blas() == {1}
    assert list(second) == [2]
    assert of_blas() == {4}


def test_other_threads_leave_it_as_it_is():
    found = []
    thread = threading.Thread(target=lambda: found.extend(threads.in_threads(lambda part: of_blas(), [1, 2])))
    thread.start()
    thread.join()
    assert found == [{4}, {4}]


def test_a_number_that_is_set_already_is_not_raised():
    with threadpool_limits(1, user_api="blas"):
        assert list(threads.in_threads(lambda part: of_blas(), [1, 2])) == [{1}, {1}]
        with threads._BLAS.at_most(3):
            assert of_blas() == {1}
