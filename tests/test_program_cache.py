"""Programs kept on disk: found again, and never taken from where somebody else could have put them."""

from __future__ import annotations

import importlib.util
import os
import pickle
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache

import convexrank
import convexrank.backend.compilation as program_cache
from convexrank.backend.compilation import jit
from convexrank.backend.host_callback import call_on_host
from convexrank.backend.jax_oracles import with_x64

X = np.linspace(-1.0, 2.0, 7)


def keep_in_jax(folder):
    """Let JAX keep programs in a folder, or nowhere."""
    jax.config.update("jax_compilation_cache_dir", folder)
    compilation_cache.reset_cache()  # it looks at its settings once


@pytest.fixture(autouse=True)
def without_jax():
    """JAX's own cache, which may be set up where the tests run, stands aside."""
    before = jax.config.jax_compilation_cache_dir
    keep_in_jax(None)
    yield
    keep_in_jax(before)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    jit(lambda x: x, small=True)  # looks once whether the compiler knows the options, by a program of its own
    monkeypatch.setenv("CONVEXRANK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "programs"


@pytest.fixture
def compilations(monkeypatch):
    """Counts what is compiled and not loaded."""
    counted, compile_now = [], jax.stages.Lowered.compile
    monkeypatch.setattr(
        jax.stages.Lowered,
        "compile",
        lambda self, *a, **k: counted.append(self) or compile_now(self, *a, **k),
    )
    return counted


def run(shift=1.0, small=True, x=X):
    """Value and gradient by a program that this process has not kept in memory."""
    jax.clear_caches()
    with with_x64():
        value, slope = jit(jax.value_and_grad(lambda x: jnp.sum(x**3) + shift), small)(x)
        return float(value), np.asarray(slope)


def right(found, shift=1.0):
    np.testing.assert_allclose(found[0], (X**3).sum() + shift, rtol=1e-12)
    np.testing.assert_allclose(found[1], 3 * X**2, rtol=1e-12)


def files(folder):
    return sorted(folder.iterdir()) if folder.exists() else []


def test_a_program_is_compiled_once(folder, compilations):
    for _ in range(3):
        right(run())
    assert len(compilations) == len(files(folder)) == 1


@pytest.mark.parametrize("other", [{"shift": 2.0}, {"small": False}, {"x": np.append(X, 0.0)}])
def test_programs_that_differ_are_told_apart(folder, compilations, other):
    right(run())
    value, slope = run(**other)
    x = other.get("x", X)
    np.testing.assert_allclose(value, (x**3).sum() + other.get("shift", 1.0), rtol=1e-12)
    assert slope.shape == x.shape
    assert len(compilations) == len(files(folder)) == 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: b"",
        lambda content: content[:-9],
        lambda content: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
    ],
    ids=["empty", "cut off", "one bit"],
)
def test_a_spoilt_file_is_replaced(folder, compilations, spoil):
    run()
    (file,) = files(folder)
    whole = file.read_bytes()
    file.write_bytes(spoil(whole))
    right(run())
    right(run())
    assert len(compilations) == 2
    assert file.read_bytes() != spoil(whole)


def test_what_jax_refuses_to_load_is_compiled(folder, compilations):
    run()
    (file,) = files(folder)
    file.unlink()
    program_cache._write(file, b"not a program")
    right(run())
    assert len(compilations) == 2


def test_what_jax_keeps_is_not_stored_again(tmp_path, folder):
    """What JAX has loaded from its own cache would be stored without its functions, and fail in a later process."""
    keep_in_jax(str(tmp_path / "jax"))
    shortest = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    right(run())
    right(run())
    assert files(tmp_path / "jax")
    assert not files(folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", shortest)
    keep_in_jax(None)
    right(run())
    right(run())
    assert len(files(folder)) == 1


@pytest.mark.parametrize("what", ["outer folder", "folder", "file"])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_nothing_is_loaded_that_others_may_write_to(folder, compilations, what, mode):
    run()
    (file,) = files(folder)
    {"outer folder": folder.parent, "folder": folder, "file": file}[what].chmod(mode)
    right(run())
    assert len(compilations) == 2


def test_nothing_is_loaded_that_belongs_to_somebody_else(folder, compilations, monkeypatch):
    run()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    right(run())
    assert len(compilations) == 2


@pytest.mark.parametrize("value", ["", "0", "off", "None"])
def test_the_variable_switches_it_off(folder, compilations, monkeypatch, value):
    monkeypatch.setenv("CONVEXRANK_CACHE_DIR", value)
    right(run())
    right(run())
    assert len(compilations) == 2
    assert not files(folder)


def test_without_the_variable_it_is_in_the_cache_of_the_user(tmp_path, monkeypatch):
    monkeypatch.delenv("CONVEXRANK_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a"))
    run()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "b"))
    run()
    places = (
        tmp_path / "a" / "convexrank" / "programs",
        tmp_path / "b" / ".cache" / "convexrank" / "programs",
    )
    assert all(len(files(place)) == 1 and place.stat().st_mode & 0o777 == 0o700 for place in places)


@pytest.mark.parametrize("outer", ["", "a", "./a"])
def test_a_relative_folder_of_caches_is_ignored(tmp_path, monkeypatch, outer):
    """As its specification says: the current folder may be anybody's."""
    monkeypatch.delenv("CONVEXRANK_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", outer)
    monkeypatch.setenv("HOME", str(tmp_path / "b"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    run()
    assert not files(tmp_path / "here")
    assert len(files(tmp_path / "b" / ".cache" / "convexrank" / "programs")) == 1


def test_without_a_folder_all_is_compiled(tmp_path, compilations, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CONVEXRANK_CACHE_DIR", str(tmp_path / "file" / "folder"))
    right(run())
    right(run())
    assert len(compilations) == 2


def test_a_write_that_fails_leaves_nothing(folder, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(program_cache.os, "replace", full)
    right(run())
    assert not files(folder)


def test_programs_that_call_back_are_not_stored(folder, compilations, monkeypatch):
    # JAX of today refuses to serialize them; what it did with them tomorrow would hold addresses of this process
    monkeypatch.setattr(serialize_executable, "serialize", lambda compiled: (b"anything", None, None))

    def outside(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return call_on_host(lambda x: (2.0 * x,), (shape,), x, vmap_method="sequential")[0]

    for _ in range(2):
        jax.clear_caches()
        with with_x64():
            np.testing.assert_array_equal(jit(outside, small=True)(X), 2.0 * X)
    assert len(compilations) == 2
    assert not files(folder)


def test_the_oldest_go_when_there_are_too_many(folder, monkeypatch):
    run()
    (old,) = files(folder)
    os.utime(old, (1, 1))
    gone = old.with_name("convexrank-gone")
    gone.symlink_to("nowhere")  # as what another process gives a new name, between listing and looking
    size = old.stat().st_size
    monkeypatch.setattr(program_cache, "_MOST", int(1.5 * size))
    monkeypatch.setattr(program_cache, "_LEFT", int(1.2 * size))
    run(shift=2.0)
    assert gone in files(folder)
    (new,) = set(files(folder)) - {gone}
    assert new != old


def test_only_what_was_stored_here_goes(folder, monkeypatch):
    run()
    (old,) = files(folder)
    theirs = [folder / name for name in ("thesis.tex", "a" * 64, "writing-", "convexrank-notes")]
    for file in theirs:
        file.write_bytes(b"of the user" * 1000)
    for file in (old, *theirs):
        os.utime(file, (1, 1))
    monkeypatch.setattr(program_cache, "_MOST", 1)
    monkeypatch.setattr(program_cache, "_LEFT", int(1.2 * old.stat().st_size))
    run(shift=2.0)
    assert set(theirs) < set(files(folder))
    assert old not in files(folder)
    assert len(files(folder)) == len(theirs) + 1


def test_arguments_of_every_kind(folder):
    program = jit(lambda tree, scale, x: scale * tree["a"] + x, small=True)
    for tree in ({"a": X}, {"a": jnp.asarray(X, jnp.float32)}):
        for scale in (2, 2.0, np.float32(2.0), True):
            expected = scale * np.asarray(tree["a"], np.float32) + X
            np.testing.assert_allclose(program(tree, scale, X), expected, rtol=1e-6)
    with with_x64():
        assert program({"a": X}, 2.0, X).dtype == np.float64
    assert program({"a": X}, 2.0, X).dtype == np.float32
    # while JAX traces, and where it is told not to compile, there is nothing to load
    before = len(files(folder))
    mapped = jax.vmap(lambda x: program({"a": x}, 2.0, x))(jnp.stack([X, X]))
    np.testing.assert_allclose(mapped, 3.0 * np.stack([X, X]), rtol=1e-6)
    with jax.disable_jit():
        np.testing.assert_allclose(jit(lambda x: x + 1.0, small=True)(X), X + 1.0, rtol=1e-6)
    assert len(files(folder)) == before


# --- numba ----------------------------------------------------------------------------------------------------------

SOURCE = """
from convexrank.backend.numba_cache import compiled

@compiled("float64(float64)")
def double(x):
    return 2.0 * x
"""


class Planted:
    """What runs a program of somebody else when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The folders that machine code may be in: named, beside the source, of the user."""
    (tmp_path / "source").mkdir(mode=0o700)
    (tmp_path / "source" / "module.py").write_text(SOURCE)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "named"))
    return tmp_path / "named", tmp_path / "source" / "__pycache__", tmp_path / "cache" / "numba"


def load(places):
    """Import the source as a new process would; return the folder of machine code, and whether some was there."""
    spec = importlib.util.spec_from_file_location("module", places[1].parent / "module.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.double(4.0) == 8.0
    stats = module.double.stats
    inside = [place for place in places if stats.cache_path and Path(stats.cache_path).is_relative_to(place)]
    return inside[0] if inside else None, sum(stats.cache_hits.values())


def test_machine_code_is_kept_where_it_should_be(places, monkeypatch):
    named, beside, own = places
    assert [load(places) for _ in range(2)] == [(named, 0), (named, 1)]
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    assert [load(places) for _ in range(2)] == [(beside, 0), (beside, 1)]
    beside.parent.chmod(0o770)
    assert [load(places) for _ in range(2)] == [(own, 0), (own, 1)]
    assert own.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("CONVEXRANK_CACHE_DIR", "off")
    assert load(places) == (None, 0)


@pytest.mark.parametrize("opened", ["outer folder", "folder", "index", "code", "owner"])
def test_no_machine_code_is_loaded_that_others_may_have_written(tmp_path, places, monkeypatch, opened):
    load(places)
    (index,), (code,) = ([*places[0].rglob(f"*.{kind}")] for kind in ("nbi", "nbc"))
    planted = tmp_path / "planted"
    index.write_bytes(pickle.dumps(numba.__version__) + pickle.dumps(Planted(planted)))
    if opened == "owner":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    elif opened in ("index", "code"):
        index.parent.chmod(0o755)
        {"index": index, "code": code}[opened].chmod(0o666)
    else:
        {"outer folder": places[0], "folder": index.parent}[opened].chmod(0o777)
    folder, loaded = load(places)
    assert folder != places[0]
    assert not loaded
    assert not planted.exists()


def test_files_of_a_closed_folder_may_have_any_mode(places):
    load(places)
    for file in places[0].rglob("*.nb*"):
        file.chmod(0o666)  # as a umask of 0 leaves them: nobody gets into the folder
    assert load(places) == (places[0], 1)


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_damaged_machine_code_is_replaced(places, kind):
    load(places)
    (file,) = places[0].rglob(f"*.{kind}")
    file.write_bytes(file.read_bytes()[:30])
    assert [load(places) for _ in range(2)] == [(places[0], 0), (places[0], 1)]


def test_functions_compile_where_nothing_can_be_written(places, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert load(places) == (places[0], 0)


def test_numba_keeps_nothing_in_folders_that_were_not_looked_at():
    sources = Path(convexrank.__file__).parent.rglob("*.py")
    assert not [file for file in sources if re.search(r"cache *= *True", file.read_text(encoding="utf-8"))]
