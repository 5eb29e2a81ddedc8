"""Recordings of other tools become runs: a reader per format fills the staging tables, `assembly` makes the tables of the run.

What is read may come from anybody: its types are checked, and nothing of it becomes SQL or the name of a file unchecked.
"""

# What can be imported. Here, because the manual pages are made without the packages that an import needs.
FORMATS = {
    "nsys": "SQLite export of Nsight Systems: nsys export --type sqlite",
    "rocpd": "SQLite file of rocprofv3: rocprofv3 --output-format rocpd",
    "ctf": "folder of LTTng traces of THAPI (iprof), or of the HIP and HSA events of AMD's runtimes",
    "chrome": "Chrome trace events, as PyTorch's profiler (Kineto) writes them: .json, .json.gz",
}
