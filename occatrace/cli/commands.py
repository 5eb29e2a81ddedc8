"""The subcommands of occa_prof, its exit statuses, and the help of the whole command."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DEFAULT = "run"
# The list of subcommands, with the line of help each has. Their modules are occatrace/cli/<name>.py.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "run": "profile a program; the default if no subcommand is given",
        "top": "show a running program, refreshed: kernels, devices, memory, ranks",
        "start": "record everything that a shell runs, until `stop`",
        "stop": "end the session of `start` and print its summary; or end the recording of a run while its program goes on",
        "pause": "pause the recording of a run, on all its nodes",
        "resume": "resume recording",
        "report": "print reports from a recorded run",
        "why": "show what decided the run time (critical path), and what a change would gain",
        "efficiency": "print the parallel efficiency of a run and its factors; --scale: of several runs",
        "compare": "compare runs: what became slower, faster, new or gone",
        "ci": "write the history of runs of several versions as a page, with a badge",
        "timeline": "write a timeline of a run for ui.perfetto.dev",
        "view": "show the timeline of a run in the browser, without internet",
        "flamegraph": "write a flame graph of host time or memory by nesting of calls",
        "annotate": "print a source file with what its lines caused: device time, calls, bytes",
        "trace": "print the calls of a run as text, in time order",
        "query": "query the tables of a run with SQL",
        "export": "write the tables of a run as Parquet, CSV, JSON or SQLite",
        "import": "make a run of the recording of another tool (nsys, rocprofv3, PyTorch)",
        "digest": "print the facts of a run within a number of tokens, for an assistant",
        "mcp": "serve runs to an assistant by the Model Context Protocol",
        "doctor": "check the installation: print what is missing and which features need it",
        "paths": "print the paths of the installed libraries and plugins",
        "env": "print the environment of a profiled program, for a shell",
        "schema": "print the JSON Schema of a JSON output",
        "completion": "print what bash, zsh or fish needs to complete words of occa_prof",
        "help": "explain a subcommand, a report or a topic of the documentation",
    }
)
# The first of each group of `--help`.
_GROUPS: Mapping[str, str] = MappingProxyType({"run": "record", "report": "analyse", "doctor": "install and learn"})


# What the exit status says; docs/run-folder.md has the same list.
STATUSES: Mapping[str, str] = MappingProxyType(
    {
        "0": "success; for a profiled program: it ended normally, even if tracing failed",
        "the program's": "the program was profiled; 128 + n: it was ended by signal n",
        "1": "`compare --fail-above`: something became slower; `doctor`: something required is missing",
        "2": "invalid options, or a run, report, table or query that cannot be used: one line says what to do;"
        " `report --verify`: a file is damaged, or cannot be checked",
        "70": "an internal error: one line names it, OCCATRACE_DEBUG=1 prints the traceback",
        "126, 127": "the program cannot be executed, was not found",
        "129, 130, 143": "a subcommand was ended by SIGHUP, by Ctrl-C, by SIGTERM",
        "141": "the reader of the output has gone, as in `| head`",
    }
)


def overview() -> str:
    """The help of the whole command."""
    width = max(map(len, (*COMMANDS, *STATUSES)))
    lines = []
    for name, about in COMMANDS.items():
        lines += [f"\nsubcommands: {_GROUPS[name]}"] if name in _GROUPS else []
        lines += [f"  {name:{width}}  {about}"]
    return (
        "usage: occa_prof [OPTIONS] PROGRAM [ARGUMENTS...]\n"
        "       occa_prof SUBCOMMAND ...\n\n"
        "Run a program and report where its time went: OCCA kernels, device work, API calls.\n\n"
        + "\n".join(lines).lstrip("\n")
        + "\n\n"
        "`occa_prof run --help` lists the options of a recording, `occa_prof SUBCOMMAND --help` those of a subcommand.\n"
        "`occa_prof help` lists the topics that `occa_prof help TOPIC` explains.\n"
        "To profile a program that has the name of a subcommand: occa_prof -- report.\n\n"
        "examples:\n"
        "  occa_prof ./a.out -m OpenCL               profile a program; its own options follow it\n"
        "  occa_prof -o RUN -l ./a.out               name the run, and write a timeline\n"
        "  mpirun -n 8 occa_prof ./a.out             record all ranks as one run\n"
        "  occa_prof report RUN --report api_sum     print one report of a run\n\n"
        "exit status:\n" + "\n".join(f"  {status:{width}}  {about}" for status, about in STATUSES.items())
    )
