"""The folder in which several workers put their numbers together.

Whoever uses it holds a lock on it, and the last to leave removes it. The system takes the lock from
a process however that ends; what then is left is removed when the service next starts.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that names it, which prometheus-client reads when it is imported."""
_PREFIX = "kvmath-metrics-"


class SharedFolder:
    """A folder that stays while somebody holds it.

    Raises:
        OSError: where there is none, or none that this user may read, or it is being removed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise

    @classmethod
    def new(cls) -> Self:
        """One of our own, in the system's folder for temporary files; old ones are removed.

        Raises:
            OSError: where no such folder can be written to.
        """
        for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with suppress(OSError):  # another user's, or removed meanwhile
                cls(str(left)).leave()
        while True:
            path = tempfile.mkdtemp(prefix=_PREFIX)
            # Another service that starts may take it for an old one before it is held.
            with suppress(FileNotFoundError, BlockingIOError):
                folder = cls(path)
                if Path(path).exists():
                    return folder
                folder.leave()

    def leave(self) -> None:
        """Use it no more; the last one removes it, where it is one of ours."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            if Path(self.path).name.startswith(_PREFIX):
                shutil.rmtree(self.path, ignore_errors=True)
        finally:
            os.close(self._lock)
