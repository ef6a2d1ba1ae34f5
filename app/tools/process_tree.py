"""A process and all that it starts, ended together: a group on POSIX, a job on Windows.

The process leads a session of its own on POSIX. On Windows what it starts before it is in its job,
within microseconds, is not in there.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress


class ProcessTree:
    """A process that was just started.

    Args:
        process: the leader.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._job = _job_with(process.pid) if sys.platform == "win32" else None

    def ask_to_end(self) -> None:
        """Ask all of them; Windows knows no such thing, so the leader ends there."""
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.terminate()
            else:
                os.killpg(self._process.pid, signal.SIGTERM)

    def end(self) -> None:
        """End all of them at once, those that the leader has left behind, too."""
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                job, self._job = self._job, None
                if job is not None:
                    _end_job(job)
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)


def _job_with(pid: int) -> object | None:
    """Return a job that a process is in, whose members end when it is closed, whoever closes it.

    None: Windows gives none.
    """
    import pywintypes
    import win32api
    import win32con
    import win32job

    try:
        job = win32job.CreateJobObject(None, "")
        kind = win32job.JobObjectExtendedLimitInformation
        limits = win32job.QueryInformationJobObject(job, kind)
        limits["BasicLimitInformation"]["LimitFlags"] |= win32job.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
        win32job.SetInformationJobObject(job, kind, limits)
        rights = win32con.PROCESS_SET_QUOTA | win32con.PROCESS_TERMINATE
        handle = win32api.OpenProcess(rights, False, pid)
        try:
            win32job.AssignProcessToJobObject(job, handle)
        finally:
            win32api.CloseHandle(handle)
    except pywintypes.error:
        return None
    return job  # type: ignore[no-any-return]


def _end_job(job: object) -> None:
    import pywintypes
    import win32api
    import win32job

    with suppress(pywintypes.error):
        win32job.TerminateJobObject(job, 1)
    with suppress(pywintypes.error):
        win32api.CloseHandle(job)
