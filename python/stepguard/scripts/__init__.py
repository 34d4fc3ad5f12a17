# SPDX-License-Identifier: Apache-2.0
"""Reading job scripts: where --auto-resume stands, and what decides where something runs though it goes stale.

rules.toml, rules.py    what there is to find
opening.py              a file's bytes, whatever its name leads to
source.py               a file: its language, its lines
directives.py           #SBATCH lines as sbatch reads them
origin.py               where a text within a text stands in the file
values.py, scope.py     what a variable may hold, and where it came from
variables.py, programs.py, options.py   what is known of Slurm's variables, of programs, of srun's options
shell/                  follows a shell script as a shell would run it
python/                 follows a Python program, and gives what it starts to shell/
mentions.py             languages that are not followed
facts.py, judging.py    what was gathered → findings
check.py                one file, from bytes to a report
telling.py, sarif.py    reports for people and for tools
changes.py, fixing.py   changes that need no thought
submission.py           what sbatch tells of its job script
"""
