"""Runs a program under a Session of its own provider and prints what became of it, as JSON. The tests start this as
another user, in another mount namespace, or to kill it.
usage: drive.py ID OUTPUT PROGRAM [ARGUMENT]..."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from occatrace.errors import DaemonError
from occatrace.record.session import Session


def main() -> None:
    run_id, output, *command = sys.argv[1:]
    Path(output).parents[1].mkdir(mode=0o700, exist_ok=True)
    session = Session(run_id=run_id, output=Path(output), mode="full", patterns=["occatrace_probe:*"])
    try:
        session.start()
        environment = session.environment(os.environ)
        del environment["LD_PRELOAD"]
        program = subprocess.Popen(command, env=environment)
        program.wait()
        outcome = session.stop()
    except DaemonError as error:
        print(json.dumps({"error": str(error)}))
        return
    finally:
        session.close()
    print(
        json.dumps(
            {
                "state": outcome.state,
                "pids": [p.pid for p in outcome.processes],
                "program": program.pid,
                "status": program.returncode,
                "problem": outcome.problem,
                "notes": outcome.notes,
                "daemon": outcome.daemon,
            }
        )
    )


main()
