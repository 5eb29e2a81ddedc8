"""The scripts of tools/ as modules: they have no .py at the end of their names."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from types import ModuleType

from tests.support.runs import ROOT


def load(name: str, module_name: str | None = None) -> ModuleType:
    """The script tools/NAME, run as a module of its name or of `module_name`."""
    module_name = module_name or name
    loader = importlib.machinery.SourceFileLoader(module_name, str(ROOT / "tools" / name))
    spec = importlib.util.spec_from_loader(module_name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module
