# Commands that are waited for, and ended with all that they started.  SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import pathlib
import signal
import subprocess
import time

HELD = 10  # seconds that a process may take to end once it is killed


def session_of(stat):
    """The session of a process, by its /proc/PID/stat, whose second word may be of several; 0: it has ended."""
    try:
        state, _, _, session = stat.read_text().rsplit(")", 1)[1].split()[:4]
        return 0 if state == "Z" else int(session)
    except (OSError, IndexError, ValueError):
        return 0


def end_session(leader):
    """Ranks of mpirun have groups of their own, and would keep the GPU."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        if session_of(stat) == leader:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(stat.parent.name), signal.SIGKILL)


def wait(started, end):
    """Its exit status; None where it had to be ended, with all that it started.  What the driver holds is not waited
    for: it may never end."""
    try:
        return started.wait(max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    finally:
        if started.poll() is None:
            end_session(started.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.wait(HELD)
