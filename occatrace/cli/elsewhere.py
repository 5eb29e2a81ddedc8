"""What users of other tools write, and what it is called here: options of nsys, nvprof and rocprofv3, and formats of files."""

from __future__ import annotations

from collections.abc import Mapping

_SAMPLE = "--sample all samples devices and the host"
_CHILDREN = "processes that the program starts are recorded anyway"

# Options of nsys profile, nvprof and rocprofv3 that occa_prof does not have.
OPTIONS: Mapping[str, str] = {
    "--print-gpu-trace": "--report gpu_trace",
    "--print-api-trace": "--report api_trace, or afterwards `occa_prof trace RUN`",
    "--print-gpu-summary": "--report gpu_kern_sum,gpu_mem_time_sum",
    "--print-api-summary": "--report api_sum",
    **dict.fromkeys(("--print-summary", "--stats", "--summary"), "the summary is printed anyway; --report chooses the tables"),
    **dict.fromkeys(("--export-profile", "--output-profile", "--output-file", "--output-directory"), "-o DIR"),
    **dict.fromkeys(("--export", "--output-format"), "`occa_prof export RUN --format FORMAT -o PATH` afterwards"),
    "--csv": "--format csv",
    "--force-overwrite": "--force",
    "--profile-from-start": "--capture-range cudaProfilerApi",
    "--nvtx-capture": "--capture-range range:NAME",
    "--timeout": "--duration SECONDS",
    **dict.fromkeys(("--gpu-metrics-device", "--gpu-metrics-devices", "--system-profiling"), _SAMPLE),
    **dict.fromkeys(("--metrics", "--events", "--pmc"), "--papi EVENTS counts on the host; kernels on devices have no such counters"),
    **dict.fromkeys(("--cpu-profiling", "--python-sampling", "--cpuctxsw", "--backtrace"), "--sample-stacks"),
    **dict.fromkeys(("--cudabacktrace", "--python-backtrace"), "--call-paths"),
    **dict.fromkeys(("--profile-child-processes", "--trace-fork-before-exec", "--wait"), _CHILDREN),
    **dict.fromkeys(("--kernel-trace", "--hip-trace", "--hip-runtime-trace", "--hsa-trace", "--sys-trace"), "--trace LIST"),
    **dict.fromkeys(("--marker-trace", "--memory-copy-trace", "--profile-api-trace", "--cuda-memory-usage"), "it is recorded anyway"),
    "--kernel-include-regex": "--kernels REGEX",
    "--kernel-exclude-regex": "--exclude-kernels REGEX",
    **dict.fromkeys(("--session-new", "--session"), "`occa_prof start`"),
}  # fmt: skip

# Formats, and tools that read one of ours, which another option or command writes.
_OTF2 = "{} reads otf2: `occa_prof export RUN --format otf2 -o FOLDER`"
_TIMELINE = "`occa_prof timeline RUN -o x.{}`"
_FLAME = "`occa_prof flamegraph RUN -o x.{}`"
FORMATS: Mapping[str, str] = {
    "html": "a page is made by `occa_prof report RUN --format html -o FILE`",
    "thicket": "Thicket reads hatchet: `occa_prof export RUN --format hatchet -o FILE`",
    "pipit": _OTF2.format("Pipit"),
    "vampir": _OTF2.format("Vampir"),
    "scalasca": _OTF2.format("Scalasca"),
    "extra-p": "`occa_prof export RUNS… --format extrap -o FILE`",
    "rocprofv3": "`occa_prof export RUN --format rocpd -o FILE`",
    "pprof": _FLAME.format("pb.gz"),
    "speedscope": _FLAME.format("speedscope.json"),
    "folded": _FLAME.format("folded"),
    "flamegraph": "`occa_prof flamegraph RUN`",
    "perfetto": _TIMELINE.format("pftrace"),
    "pftrace": _TIMELINE.format("pftrace"),
    "chrome": _TIMELINE.format("json"),
    "parquet": "`occa_prof export RUN -o FOLDER`",
    "sqlite": "`occa_prof export RUN --format sqlite -o FILE`",
    "junit": "`occa_prof compare RUNS… --format junit`",
    "github": "`occa_prof compare RUNS… --format github`",
}
