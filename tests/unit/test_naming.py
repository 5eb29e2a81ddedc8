"""Names of kernels: what C++ compilers make of them, and what people want to read."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from occatrace.core import naming
from occatrace.core.naming import demangled, function, of_authors, short


@pytest.mark.parametrize(
    ("raw", "full", "brief"),
    [
        ("_Z3addPfS_S_", "add(float*, float*, float*)", "add"),
        (
            "_ZN6thrust8cuda_cub6launchIiNS_4plusIiEEEEvT_T0_",
            "void thrust::cuda_cub::launch<int, thrust::plus<int> >(int, thrust::plus<int>)",
            "thrust::cuda_cub::launch",
        ),
        ("_ZN12_GLOBAL__N_13fooEi", "(anonymous namespace)::foo(int)", "(anonymous namespace)::foo"),
        ("_ZN1AclEi", "A::operator()(int)", "A::operator()"),
        ("_ZN1AltERKS_", "A::operator<(A const&)", "A::operator<"),
        ("_ZN1AlsIiEERS_T_", "A& A::operator<< <int>(int)", "A::operator<<"),
        ("_ZNK1AcvbEv", "A::operator bool() const", "A::operator bool"),
        ("_ZZ3foovENKUlvE_clEv", "foo()::{lambda()#1}::operator()() const", "foo::{lambda()#1}::operator()"),
        ("_Z3addPf.kd", "add(float*)", "add"),
        ("scale", "scale", "scale"),
        ("_occa_add_0", "_occa_add_0", "_occa_add_0"),
        ("my kernel (fast)", "my kernel (fast)", "my kernel (fast)"),
        ("k<int>(float*)", "k<int>(float*)", "k"),
        ("decltype(auto) foo<int>(int)", "decltype(auto) foo<int>(int)", "foo"),
        ("enable_if<(3>2), void>::type foo<3>(int)", "enable_if<(3>2), void>::type foo<3>(int)", "foo"),
        # SYCL
        ("_ZTS8MyKernel", "MyKernel", "MyKernel"),
        ("_ZTSN2ns8MyKernelIfLi3EEE", "ns::MyKernel<float, 3>", "ns::MyKernel"),
        (
            "_ZTSZ3runIfEvRN4sycl3_V15queueEEUlNS1_4itemILi1ELb1EEEE_",
            "run<float>(sycl::_V1::queue&)::{lambda(sycl::_V1::item<1, true>)#1}",
            "run::{lambda(sycl::_V1::item<1, true>)#1}",
        ),
        (
            "_ZTSN4sycl3_V16detail18RoundedRangeKernelINS0_4itemILi1ELb1EEELi1EN2ns4KernIfEEEE",
            "sycl::_V1::detail::RoundedRangeKernel<sycl::_V1::item<1, true>, 1, ns::Kern<float> >",
            "ns::Kern",
        ),
        ("_ZTSN4sycl3_V16detail19__pf_kernel_wrapperI4KernEE", "sycl::_V1::detail::__pf_kernel_wrapper<Kern>", "Kern"),
        ("_Z", "_Z", "_Z"),
        ("", "", ""),
    ],
)
def test_names(raw: str, full: str, brief: str) -> None:
    assert demangled(raw) == full
    assert short(raw) == brief


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("main", "main"),
        ("__libc_start_main", "__libc_start_main"),
        ("app::Solver::step(int)", "app::Solver::step"),
        ("Field<float>::down(std::vector<float, std::allocator<float> >&)", "Field<float>::down"),
        (
            "app::Solver::run(int)::{lambda(int)#1}::operator()(int) const",
            "app::Solver::run::{lambda(int)#1}::operator()",
        ),
        ("app::Solver::run(int)::'lambda'(int)::operator()(int) const", "app::Solver::run::'lambda'::operator()"),
        ("std::ostream& std::operator<< <char>(std::ostream&, char)", "std::operator<<<char>"),
        ("void f<int>(int) [clone .constprop.0]", "f<int>"),
        ("int (anonymous namespace)::g<float>(std::vector<int>)", "(anonymous namespace)::g<float>"),
        ("void (*get<int>(int))(int)", "void (*get<int>(int))(int)"),
        (
            "std::_Function_handler<void (int), app::Solver::run(int)::'lambda'(int)>::_M_invoke(std::_Any_data const&, int&&)",
            "std::_Function_handler::_M_invoke",
        ),
        ("__solver_mod_MOD_step", "solver_mod::step"),
        ("my kernel (fast)", "my kernel (fast)"),
    ],
)
def test_functions_in_stacks(name: str, shown: str) -> None:
    assert function(name) == shown


def test_the_beginning_of_a_sycl_name_that_the_runtime_does_not_unfold() -> None:
    name = "_ZTSN4dpnp3krnI" + "N1a" * 600 + "E" * 602
    assert short(name) == "dpnp::krn"


def test_against_cxxfilt() -> None:
    """The names in a real C++ library, against binutils."""
    if not shutil.which("c++filt") or not shutil.which("nm"):
        pytest.skip("needs binutils")
    from occatrace import _native

    command = ["nm", "-D", "--format=posix", _native.__file__]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = [line.split("@")[0].split()[0] for line in listed.splitlines() if line.startswith("_Z")]
    assert len(names) > 20
    told = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    # Of kernels such names are SYCL's (above): the prefix says nothing.
    assert [demangled(name) for name in names] == [
        line.removeprefix("typeinfo name for ") for line in told.splitlines()
    ]


@given(st.text("_Z<>(){}[]:ab operator,&*", max_size=40))
def test_any_text_has_a_name(text: str) -> None:
    assert bool(function(text)) == bool(text)
    assert isinstance(short(text), str) and (short(text) or not text)


def test_long_names() -> None:
    assert short("x" * 524_288 + "<int>(int)") == "x" * 524_288
    # What neither GCC's runtime (1024 bytes) nor c++filt (1024 in each other) unfolds stays as it is, but has a short name.
    for mangled, brief in (
        (f"_Z500000{'k' * 500_000}i", "k" * 500_000),
        ("_ZN6Kokkos4Impl8parallelI" + "f" * 2000 + "EEvv", "Kokkos::Impl::parallel"),
        ("_ZN12_GLOBAL__N_11kE" + "f" * 2000, "(anonymous namespace)::k"),
        ("_Z9k" + "f" * 5, "_Z9kfffff"),
    ):
        assert demangled(mangled) == mangled and short(mangled) == brief


LONG_NAME = "_ZN6solver6kernelI" + 100 * "N6solver5fieldIiEE" + "EEvv"


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="no c++filt (Debian: binutils)")
def test_names_that_the_runtime_does_not_unfold() -> None:
    fields = ", ".join(100 * ["solver::field<int>"])
    assert demangled(LONG_NAME) == f"void solver::kernel<{fields} >()"
    assert short(LONG_NAME) == function(demangled(LONG_NAME)) == "solver::kernel"
    # One process answers all, in order, also after what it cannot unfold.
    unknown = "_Z" + 2000 * "?"
    names = [LONG_NAME.replace("kernel", f"steps{n}") for n in range(9)]
    assert [demangled(name).partition("<")[0] for name in names] == [f"void solver::steps{n}" for n in range(9)]
    assert demangled(unknown) == unknown


def test_long_names_without_the_program_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for cached in (naming._filter, demangled, short):
        cached.cache_clear()
    try:
        assert demangled(LONG_NAME) == LONG_NAME and short(LONG_NAME) == "solver::kernel"
    finally:
        for cached in (naming._filter, demangled, short):
            cached.cache_clear()


def test_names_of_authors() -> None:
    """One outer loop, several, and a name that kernels of two names share."""
    found = of_authors(
        [
            ("_occa_add_0", "add"),
            ("_occa_dot_0", "dot"),
            ("_occa_dot_1", "dot"),
            ("_occa_jit_0", "a"),
            ("_occa_jit_0", "b"),
        ]
    )
    assert found == {
        "_occa_add_0": "add",
        "_occa_dot_0": "dot (outer loop 1)",
        "_occa_dot_1": "dot (outer loop 2)",
    }
