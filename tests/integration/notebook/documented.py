"""Executes the notebooks of docs/notebooks; `python -m tests.integration.notebook.documented` writes what came out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.runs import PATIENCE, ROOT

FOLDER = ROOT / "docs" / "notebooks"
TRACE = ROOT / "tests" / "golden" / "demo-opencl" / "trace.tar.xz"


def kernel(folder: Path) -> dict[str, str]:
    """Variables for a kernel `here` of this Python, whose files lie in a folder."""
    spec = folder / "jupyter" / "kernels" / "here"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "here", "language": "python"}))
    return {
        "JUPYTER_DATA_DIR": str(folder / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": str(ROOT),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


def execute(file: Path, folder: Path) -> Any:
    """The notebook with the outputs of its cells, executed in a folder that has the demo's run as RUN. Raises where a cell does."""
    import nbformat
    from nbclient import NotebookClient

    (folder / "RUN").mkdir()
    subprocess.run(["tar", "-xf", str(TRACE)], cwd=folder / "RUN", check=True)
    notebook = nbformat.read(file, as_version=4)
    client = NotebookClient(
        notebook, timeout=int(PATIENCE), startup_timeout=int(PATIENCE), kernel_name="here", store_widget_state=False,
        record_timing=False, resources={"metadata": {"path": str(folder)}},
    )  # fmt: skip
    client.execute()
    for cell in notebook.cells:
        if "outputs" in cell:
            cell["outputs"] = _without_paths(
                cell["outputs"], {sys.executable: "python", str(folder): ".", tempfile.gettempdir(): "/tmp"}
            )
            cell["metadata"] = {}
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return notebook


def _without_paths(value: Any, names: Mapping[str, str]) -> Any:
    """Outputs do not depend on where they were made."""
    if isinstance(value, str):
        for path, name in names.items():
            value = value.replace(path, name)
        return value
    if isinstance(value, list):
        return [_without_paths(part, names) for part in value]
    if isinstance(value, dict):
        return type(value)({key: _without_paths(part, names) for key, part in value.items()})
    return value


def main() -> None:
    import nbformat

    for file in sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
            os.environ.update(kernel(Path(folder, "files")))
            Path(folder, "here").mkdir()
            nbformat.write(execute(file, Path(folder, "here")), file)


if __name__ == "__main__":
    main()
