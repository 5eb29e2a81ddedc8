import glob
import os
import platform

from spack.package import *

# Where tools/wheel puts the wheels: build/dist of the clone that this file belongs to.
WHEELS = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4, "build", "dist"))


class Occatrace(PythonPackage):
    """A tracing profiler for OCCA, OpenCL, CUDA, HIP, Level Zero, SYCL, OpenMP and MPI programs.

    It is installed from a wheel that tools/wheel built, which brings LTTng and Babeltrace."""

    has_code = False  # the wheel is a file of this clone: `spack install --overwrite occatrace` takes a newer one

    license("BSD-3-Clause")

    version("0.1.0")

    requires("platform=linux", msg="occatrace traces programs of Linux")
    requires("target=x86_64:", msg="the wheels of tools/wheel are for x86-64")

    depends_on("python@3.10:3.13", type=("build", "run"))
    depends_on("py-pip", type="build")
    depends_on("py-numpy@1.24:", type=("build", "run"))
    depends_on("py-duckdb@1.2:2", type=("build", "run"))
    depends_on("py-rich@13:", type=("build", "run"))
    depends_on("py-argcomplete@3.1:3", type=("build", "run"))
    depends_on("py-tomli@1.1:", when="^python@:3.10", type=("build", "run"))

    import_modules = ["occatrace"]

    def wheel(self):
        """The newest wheel for this Python; raises InstallError where there is none."""
        python = f"cp{self.spec['python'].version.up_to(2).joined}"
        name = f"occatrace-{self.spec.version}-{python}-{python}-*_{platform.machine()}.whl"
        found = glob.glob(os.path.join(WHEELS, name))
        if not found:
            raise InstallError(f"no {name} in {WHEELS}: tools/wheel builds it")
        return max(found, key=os.path.getmtime)

    def install(self, spec, prefix):
        words = ["-m", "pip", "install", "--no-deps", "--no-index", "--no-cache-dir", "--ignore-installed"]
        words += ["--no-warn-script-location", f"--prefix={prefix}", self.wheel()]
        python(*words)

    def test_version(self):
        """the command starts and prints its version"""
        said = Executable(self.prefix.bin.occa_prof)("--version", output=str)
        check_outputs(str(self.spec.version), said)
