"""test_bootstrap.py - scripts/bootstrap cuda: NVIDIA's packages where there is a GPU and no toolkit

The GPU is a program called nvidia-smi, the packages are small ones made here, and a toolkit that
this machine may have is hidden in a mount namespace.
"""

import os
import subprocess
import zipfile

import pytest
from gram_cli import SOURCE

BUILDS = {
    "580.65.06": ("nvidia_cuda_runtime-13.0.1", "nvidia_cuda_nvrtc-13.0.1", "cu13", "cu13"),
    "550.54.14": (
        *("nvidia_cuda_runtime_cu12-12.9.1", "nvidia_cuda_nvrtc_cu12-12.9.1"),
        *("cuda_runtime", "cuda_nvrtc"),
    ),
}
HIDE = """
for folder in /usr/local/cuda /usr/local/include; do
    [ ! -d $folder ] || mount -t tmpfs none $folder || exit 99
done
[ ! -e /usr/include/cuda.h ] || exit 99
exec "$@"
"""


def make_wheel(folder, name, file):
    package, version = name.split("-")
    about = f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: {version}\n"
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"nvidia/{file}", "/* a header */\n")
        wheel.writestr(f"{name}.dist-info/METADATA", about)
        wheel.writestr(f"{name}.dist-info/WHEEL", kind)
        wheel.writestr(f"{name}.dist-info/RECORD", "")


def machine(folder, driver):
    """The environment of a machine whose GPU has this driver; None: no GPU."""
    (folder / "bin").mkdir()
    smi = folder / "bin" / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\necho {driver}\n" if driver else "#!/bin/sh\nexit 9\n")
    smi.chmod(0o755)
    (folder / "wheels").mkdir()
    kept = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH")}
    return {
        **kept,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "BUILD": str(folder / "build"),
        "CMAKE_FLAGS": "",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder / "wheels"),
    }


def without_toolkit(*command, env):
    """What it says on both streams; its status is 0."""
    try:
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c", HIDE, "sh", *command],
            **dict(cwd=SOURCE, env=env, text=True, check=False),
            **dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT),
        )
    except FileNotFoundError:
        pytest.skip("no unshare")
    if done.returncode in (1, 99) and "unshare" in done.stdout or done.returncode == 99:
        pytest.skip("no mount namespaces here, or a toolkit in /usr")
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("driver", BUILDS)
def test_a_gpu_without_a_toolkit(tmp_path, driver):
    runtime, nvrtc, first, second = BUILDS[driver]
    env = machine(tmp_path, driver)
    make_wheel(tmp_path / "wheels", runtime, f"{first}/include/cuda.h")
    make_wheel(tmp_path / "wheels", nvrtc, f"{second}/include/nvrtc.h")
    said = without_toolkit("scripts/bootstrap", "cuda", env=env)
    assert "Python packages" in said and said.count("\n") == 1
    nvidia = tmp_path / "build" / "nvidia"
    assert (nvidia / first / "include" / "cuda.h").exists()
    assert (nvidia / second / "include" / "nvrtc.h").exists()
    assert without_toolkit("scripts/bootstrap", "cuda", env=env) == ""
    said = without_toolkit("cmake", "-S", SOURCE, "-B", tmp_path / "build", env=env)
    assert f"CUDA {nvidia}/{first}/include" in said


def test_a_gpu_without_a_network(tmp_path):
    env = machine(tmp_path, "580.65.06")
    said = without_toolkit("scripts/bootstrap", "cuda", env=env)
    assert said.endswith("bootstrap: going on without the CUDA backend\n")
    assert not (tmp_path / "build" / "nvidia").exists()


def test_nothing_is_fetched_without_need(tmp_path):
    env = machine(tmp_path, "580.65.06")
    assert without_toolkit("scripts/bootstrap", "cuda", env=env | {
        "CMAKE_FLAGS": "-DGRAM_CUDA=OFF"
    }) == ""  # fmt: skip
    home = tmp_path / "toolkit"
    (home / "include").mkdir(parents=True)
    for name in ("cuda.h", "nvrtc.h"):
        (home / "include" / name).touch()
    assert without_toolkit("scripts/bootstrap", "cuda", env=env | {"CUDA_HOME": str(home)}) == ""
    assert not (tmp_path / "build").exists()


def test_no_gpu(tmp_path):
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there is one")
    assert without_toolkit("scripts/bootstrap", "cuda", env=machine(tmp_path, None)) == ""
    assert not (tmp_path / "build").exists()
