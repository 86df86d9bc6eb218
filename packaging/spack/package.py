# Spack's recipe; scripts/release fills in what stands between @ and writes
# build/release/recipes/spack/package.py, which belongs into a repository's packages/libgram/.
from spack.package import *


class Libgram(CMakePackage):
    """Gram matrices: distances, kernels, gradients, solves and kernel machines."""

    url = "@URL@"
    license("MIT")

    version("@VERSION@", sha256="@SHA256@")

    variant("cuda", default=False, description="Build the plugin for NVIDIA GPUs")
    variant("mpi", default=False, description="Build the transport over MPI")

    depends_on("c", type="build")
    depends_on("cmake@3.18:", type="build")
    depends_on("blas")
    depends_on("lapack")
    depends_on("cuda@12.8:", when="+cuda")
    depends_on("mpi", when="+mpi")

    build_targets = ["programs"]

    def cmake_args(self):
        blas = self.spec["blas"].libs
        lapack = self.spec["lapack"].libs
        args = [
            self.define("GRAM_TESTS", False),
            self.define("BLAS_LIBRARIES", blas.joined(";")),
            self.define("LAPACK_LIBRARIES", lapack.joined(";")),
            self.define_from_variant("GRAM_CUDA", "cuda"),
            self.define_from_variant("GRAM_MPI", "mpi"),
        ]
        if self.spec.satisfies("+cuda"):
            include = self.spec["cuda"].prefix.include
            args += [
                self.define("GRAM_CUDA_INCLUDE", include),
                self.define("GRAM_NVRTC_INCLUDE", include),
            ]
        return args
