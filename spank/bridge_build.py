# SPDX-License-Identifier: Apache-2.0
"""For building the bridge: `bridge_build.py emit FILE.c` writes what cffi embeds, `bridge_build.py flags compile|link`
prints the compiler's options.

`flags` runs under the Python that the venv is made from and needs nothing beyond it; `emit` needs cffi.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

_HEADER = Path(__file__).with_name("bridge.h")

# Runs in srun. An exception becomes the answer's text, for 0 must never look like an answer.
_INIT = """
from _stepguard_bridge import ffi


@ffi.def_extern(error=0)
def stepguard_decide(question, answer):
    try:
        from stepguard import bridge

        return bridge.answer(ffi, question, answer)
    except BaseException as error:
        text = f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace")[:1000]
        ffi.memmove(answer.text, text + bytes(1), len(text) + 1)
        return 0
"""


def emit(target: Path) -> None:
    """Writes the C source of the module that holds the embedded function."""
    import cffi

    ffi = cffi.FFI()
    declarations = [line for line in _HEADER.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    types, _, functions = "\n".join(declarations).partition("int stepguard_decide")
    ffi.cdef(types)
    ffi.embedding_api("int stepguard_decide" + functions.partition(";")[0] + ";")
    ffi.set_source("_stepguard_bridge", '#include "bridge.h"')
    ffi.embedding_init_code(_INIT)
    ffi.emit_c_code(str(target))


def flags(step: str) -> str:
    """What the C compiler needs for this Python to "compile" or to "link", as the text of a response file.

    Raises SystemExit with advice when this Python has no shared library or no headers.
    """
    variables = sysconfig.get_config_vars()
    library = Path(variables["LIBDIR"]) / str(variables["INSTSONAME"])
    if not variables["Py_ENABLE_SHARED"] or not library.exists():
        raise SystemExit(
            f"stepguard: {sys.executable} has no shared libpython: use a distribution's Python, for example "
            "`make PYTHON=/usr/bin/python3`, or one that was configured with --enable-shared"
        )
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        raise SystemExit(f"stepguard: {headers}/Python.h is missing: install python3-dev (Debian) or python3-devel")
    if step == "link":
        # RPATH and not RUNPATH: the user's LD_LIBRARY_PATH (conda sets it) must not choose the library.
        return f"-Wl,--disable-new-dtags,-rpath,{library.parent} {library}"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = {
        "STEPGUARD_LIBPYTHON": library.name,
        "STEPGUARD_PYTHON": version,
        "STEPGUARD_PACKAGES": f"/venv/lib/python{version}/site-packages",
    }
    return " ".join([f"-I{headers}", *(f"-D{name}='\"{value}\"'" for name, value in names.items())])


def main(arguments: list[str]) -> None:
    """The command line; see above."""
    match arguments:
        case ["emit", target]:
            emit(Path(target))
        case ["flags", ("compile" | "link") as step]:
            print(flags(step))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
