# SPDX-License-Identifier: Apache-2.0
"""How large the files of a record can be. Whatever is larger was made so by its owner, to whom it belongs: nobody reads
further, and in the size of the archive no more of it counts.
"""

from __future__ import annotations

from stepguard.archive.layout import ENVIRONMENT, FINDINGS, RESUMES, SCRIPT, STDERR, STDOUT
from stepguard.archive.plain_files import MANIFEST_MAX_BYTES

OUTPUTS = (STDOUT, STDERR)
KEPT = frozenset((SCRIPT, ENVIRONMENT, RESUMES, FINDINGS, *OUTPUTS))
"""What a manifest can have."""
KEPT_KIB = 64 + 1024
"""The default of `[archive]` head_kib and tail_kib together."""
# Of a script 4 MiB are kept, of an environment and of a journal 1 MiB, and as JSON a byte takes at most six.
_FILE_MAX_BYTES = MANIFEST_MAX_BYTES
_OUTPUT_MAX_BYTES = 64 << 20


def limit_bytes(name: str, kept_kib: int) -> int:
    """The bound of a file of this name, where so much is kept of an output now; it may have been more before."""
    return max(_OUTPUT_MAX_BYTES, 2 * kept_kib << 10) if name in OUTPUTS else _FILE_MAX_BYTES
