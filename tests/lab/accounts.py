# SPDX-License-Identifier: Apache-2.0
"""The users of a lab: /etc/passwd and /etc/group of its hosts, homes, and a login's environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError

_FIRST_UID = 60101  # above what adduser hands out, so that it is nobody's on the machine

# Debian's default for a login, with sbin for everybody: the tests look at what daemons left.
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Account:
    """One line of /etc/passwd."""

    name: str
    uid: int
    gid: int
    home: str

    def environment(self) -> dict[str, str]:
        """What a login sets."""
        return {
            "HOME": self.home,
            "USER": self.name,
            "LOGNAME": self.name,
            "SHELL": "/bin/bash",
            "PATH": _PATH,
            "LANG": "C.UTF-8",
        }


class Accounts:
    """All accounts of the hosts: those of the root file system below, and the lab's users."""

    def __init__(self, root: Path, users: Sequence[str], homes: Path) -> None:
        self._passwd = _without(users, root / "etc/passwd")
        self._group = _without(users, root / "etc/group")
        self.by_name = {}
        for line in self._passwd.splitlines():
            name, _, uid, gid, _, home, _ = line.split(":")
            self.by_name[name] = Account(name, int(uid), int(gid), home)
        self.users = [Account(name, _FIRST_UID + i, _FIRST_UID + i, str(homes / name)) for i, name in enumerate(users)]
        self.by_name.update({user.name: user for user in self.users})

    def __getitem__(self, name: str) -> Account:
        try:
            return self.by_name[name]
        except KeyError:
            raise LabError(f"no such user on the hosts: {name}") from None

    def passwd(self) -> str:
        """The text of /etc/passwd."""
        return self._passwd + "".join(f"{u.name}:x:{u.uid}:{u.gid}::{u.home}:/bin/bash\n" for u in self.users)

    def group(self) -> str:
        """The text of /etc/group."""
        return self._group + "".join(f"{u.name}:x:{u.gid}:\n" for u in self.users)

    def make_homes(self) -> None:
        """Makes the users' homes."""
        for user in self.users:
            home = Path(user.home)
            home.mkdir()
            home.chmod(0o700)
            os.chown(home, user.uid, user.gid)


def _without(names: Sequence[str], path: Path) -> str:
    """The text of an account file, but for the lines of these names."""
    lines = path.read_text().splitlines(keepends=True)
    return "".join(line for line in lines if line.partition(":")[0] not in names)
