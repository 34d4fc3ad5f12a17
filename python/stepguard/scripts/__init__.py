# SPDX-License-Identifier: Apache-2.0
"""Reading job scripts: where --auto-resume stands, and what decides where something runs though it goes stale.

rules.toml, rules.py    what there is to find
source.py               a file: its language, its lines
directives.py           #SBATCH lines as sbatch reads them
tree.py                 a shell script as a tree
origin.py               where a text within a text stands in the file
words.py, builder.py, oddities.py, reader.py    tree-sitter's tree → ours
values.py               what a variable may hold, and where it came from
variables.py, programs.py, options.py   what is known of Slurm's variables, of programs, of srun's options
scope.py, expand.py, branching.py, shell.py     follows a script as a shell would run it
assigning.py, builtins.py, tools.py, carriers.py, commands.py   what commands do to values, and which run others
launching.py, setup.py  what is started with which values, what prepares nodes
python_ast.py, python_values.py, python_reader.py, python_inline.py    Python programs, by Python's ast
mentions.py             languages that are not followed
facts.py, judging.py    what was gathered → findings
check.py                one file, from bytes to a report
telling.py, sarif.py    reports for people and for tools
changes.py, fixing.py   changes that need no thought
submission.py           what sbatch tells of its job script
"""
