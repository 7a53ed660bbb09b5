"""Points kept on the way: what is in the file, going on from it, a disk that is full."""

from __future__ import annotations

import os

import numpy as np
import pytest

import convexrank as cr
from convexrank.data.files import replacing


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6)) * np.logspace(0, 2, 6)
    return cr.problems.PNormPush(X, X[:, 0] + rng.normal(size=200) > 0.5, p=8, l2=1e-6)


@pytest.mark.quick
def test_the_best_point_is_kept_and_goes_on(tmp_path):
    path, push, steps = tmp_path / "kept.npz", problem(), []
    with pytest.warns(cr.ConvergenceWarning):
        stopped = push.solve(
            "lbfgs",
            tol=1e-12,
            max_iter=11,
            checkpoint=path,
            every=3,
            callback=lambda state: steps.append(state.x),
        )
    kept = cr.Solution.load(path)
    assert kept.iterations == 9
    assert stopped.iterations == 11
    assert (kept.x == steps[9]).all()
    assert kept.status is cr.Status.INTERRUPTED
    assert kept.gap == np.inf  # nothing is proved on the way
    assert kept.value == pytest.approx(push.objective(kept), rel=1e-12)
    resumed = push.solve("lbfgs", tol=1e-10, x0=kept)
    assert resumed.converged
    assert resumed.trace["objective"][0] == pytest.approx(kept.value, rel=1e-12)
    assert os.listdir(tmp_path) == ["kept.npz"]


def test_a_full_disk_leaves_the_older_one_and_stops_no_solve(tmp_path, monkeypatch):
    path, push = tmp_path / "kept.npz", problem()
    push.solve("lbfgs", checkpoint=path, every=2)
    before = path.read_bytes()
    truth, write = push.solve("lbfgs"), np.savez

    def full(file, **arrays):
        write(file, **arrays)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.warns(RuntimeWarning, match=r"was not written at step \d+ .*No space left.*goes on"):
        found = push.solve("lbfgs", checkpoint=path, every=2)
    assert (found.x == truth.x).all()
    with pytest.raises(OSError, match="No space left"):
        found.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["kept.npz"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_device_is_written_to_and_not_replaced():
    with pytest.raises(OSError, match="No space left"), replacing("/dev/full") as file:
        file.write(b"x" * 100_000)
    assert not os.path.isfile("/dev/full")


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_what_a_link_points_to_is_replaced(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
        assert (tmp_path / "real").read_bytes() == b"old"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "kept.npz"
    path.write_bytes(b"old")
    path.chmod(mode)
    with replacing(path) as file:
        assert os.stat(file.name).st_mode & 0o777 == mode  # before anything is in it
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_another_group_gets_no_rights(tmp_path, monkeypatch):
    """Where the group of the old file cannot be had, the rights of its group are not for another one."""
    path = tmp_path / "kept.npz"
    path.write_bytes(b"old")
    path.chmod(0o660)
    old, real = os.stat(path), os.stat

    def refused(*_):
        raise PermissionError

    def other_group(file, **options):
        found = real(file, **options)
        return found if found.st_ino != old.st_ino else os.stat_result((*found[:5], found[5] + 1, *found[6:]))

    monkeypatch.setattr(os, "chown", refused)
    monkeypatch.setattr(os, "stat", other_group)
    with replacing(path) as file:
        file.write(b"new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_bad_arguments_are_refused(tmp_path):
    push = problem()
    with pytest.raises(TypeError, match="checkpoint is 3, expected a path"):
        push.solve(checkpoint=3)
    with pytest.raises(ValueError, match="every is 0"):
        push.solve(checkpoint=tmp_path / "kept.npz", every=0)
    with pytest.raises(ValueError, match="solver exact takes no steps"):
        push.solve("exact", checkpoint=tmp_path / "kept.npz")
    with pytest.raises(TypeError, match="path is None"):
        push.solve().save(None)
