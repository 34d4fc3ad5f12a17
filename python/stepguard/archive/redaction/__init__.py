# SPDX-License-Identifier: Apache-2.0
"""Takes secrets out of a job's environment, script and output before they are archived.

rules.toml       what is a secret: names of variables, shapes of tokens, words that a password stands after
rules.py         reads it, and a site's own file, and checks both
names.py         which names of variables hold secrets
values.py        what a value looks like: random, a path, a placeholder
assignments.py   finds NAME=VALUE, "name": "value", --name value in text
places.py        where a name stands there, and what is around it
reading.py       reads the value behind a name: in quotes, in none, to the end of a line, as a block of YAML
inputs.py        finds what a script gives to `read` and `cat` as input
shell.py         reads a word as bash does, and says what bash makes of it
escapes.py       what a shell makes of backslashes
shapes.py        finds tokens and passwords by what they look like and what stands before them
known.py         finds secrets that are known, in whatever form they are written
spans.py         puts what was found together and replaces it
redactor.py      does all of it
"""

from stepguard.archive.redaction.redactor import Redactor
from stepguard.archive.redaction.rules import Rules, load_rules

__all__ = ["Redactor", "Rules", "load_rules"]
