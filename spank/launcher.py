#!/opt/stepguard/venv/bin/python -IS
# SPDX-License-Identifier: Apache-2.0
"""PREFIX/bin/stepguard, with PREFIX for /opt/stepguard. The plugin starts every guarded step by it.

Isolated (-I), and without the site module (-S): that takes 2 ms, runs what the host's sitecustomize and .pth files say,
and would only add the path below. `python -m stepguard` would take 3 ms more.
"""

import sys

sys.path.append("/opt/stepguard/venv/lib/python{}.{}/site-packages".format(*sys.version_info))

from stepguard.__main__ import main

sys.exit(main())
