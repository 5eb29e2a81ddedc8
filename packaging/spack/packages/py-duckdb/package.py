from spack.package import *


class PyDuckdb(PythonPackage):
    """DuckDB for Python, from its released wheels: an analytical SQL database within the process."""

    homepage = "https://duckdb.org"
    pypi = "duckdb/duckdb-2.0.1.tar.gz"  # where the wheels lie, too

    license("MIT")

    # A version for each wheel: one fits CPython 3.12 and later, the others one Python each.
    version("2.0.1-cp312", sha256="39ffeb136abed770a496e5592a464f18a07b1543e7ddb1ff6453215e179f1647", expand=False)
    version("2.0.1-cp311", sha256="eb32b389d99d14cbbec4c110f58237c77eacefc65ef6f737619f413c97a91a77", expand=False)
    version("1.5.6-cp310", sha256="dbd348e9ebdc8b28f1f9930efb5a74a382063c35d9c43901075566fbae50ab5c", expand=False)

    wheels = {
        "2.0.1-cp312": "duckdb-2.0.1-cp312-abi3-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
        "2.0.1-cp311": "duckdb-2.0.1-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
        "1.5.6-cp310": "duckdb-1.5.6-cp310-cp310-manylinux_2_26_x86_64.manylinux_2_28_x86_64.whl",
    }

    requires("platform=linux", msg="the wheels are for Linux")
    requires("target=x86_64:", msg="the wheels are for x86-64")

    depends_on("python@3.12:", when="@2.0.1-cp312", type=("build", "run"))
    depends_on("python@3.11", when="@2.0.1-cp311", type=("build", "run"))
    depends_on("python@3.10", when="@1.5.6-cp310", type=("build", "run"))

    import_modules = ["duckdb"]

    def url_for_version(self, version):
        """Of the wheel, beside the sources' place on PyPI."""
        base, _, _ = self.url.partition("/source/")
        return f"{base}/{str(version).rpartition('-')[2]}/d/duckdb/{self.wheels[str(version)]}"
