"""`occa_prof paths`: where the installed pieces are, for build systems and scripts."""

from __future__ import annotations

import argparse

from occatrace.run import install


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """One path per option; all of them without one."""
    parser.description = "Print the paths of the installed libraries and plugins."
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--include", action="store_true", help="print the folder of occatrace.h and occatrace.f90")
    which.add_argument("--lib", action="store_true", help="print the folder of the libraries for traced programs")
    which.add_argument(
        "--plugins", action="store_true", help="print the folder of the babeltrace2 plugins, for BABELTRACE_PLUGIN_PATH"
    )
    which.add_argument("--man", action="store_true", help="print the folder of the manual pages, for MANPATH")


def run(args: argparse.Namespace) -> int:
    """Print paths."""
    if args.include:
        print(install.INCLUDE)
    elif args.lib:
        print(install.LIB)
    elif args.plugins:
        print(install.PLUGINS)
    elif args.man:
        print(install.MAN)
    else:
        for name, path in (
            ("package", install.PACKAGE),
            ("include", install.INCLUDE),
            ("lib", install.LIB),
            ("plugins", install.PLUGINS),
            ("man", install.MAN),
            ("docs", install.docs()),
            ("preload", install.PRELOAD),
            ("opencl layer", install.OPENCL_LAYER),
        ):
            print(f"{name:14}{path}{'' if path.exists() else '  (not built)'}")
    return 0
