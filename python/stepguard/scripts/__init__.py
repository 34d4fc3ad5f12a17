# SPDX-License-Identifier: Apache-2.0
"""Reading job scripts: where --auto-resume stands, and what decides where something runs though it goes stale.

rules.toml, rules.py    what there is to find
opening.py              a file's bytes, whatever its name leads to
source.py               a file: its language, its lines
directives.py           #SBATCH lines as sbatch reads them
tree.py                 a shell script as a tree
origin.py               where a text within a text stands in the file
words.py, builder.py, oddities.py, limits.py, reader.py   tree-sitter's tree → ours
values.py               what a variable may hold, and where it came from
variables.py, programs.py, options.py   what is known of Slurm's variables, of programs, of srun's options
scope.py, expand.py, branching.py, shell.py     follows a script as a shell would run it
assigning.py, builtins.py, tools.py, carriers.py, commands.py   what commands do to values, and which run others
launching.py, setup.py  what is started with which values, what prepares nodes
python_reader.py, python_inline.py      Python programs, by Python's ast, in the order in which they run
python_ast.py, python_things.py, python_texts.py    what an expression may be
python_program.py       what the names, the environment and the files of a program hold
python_expressions.py, python_containers.py, python_binding.py, python_statements.py, python_branches.py    its course
python_calls.py, python_library.py, python_call.py, python_functions.py, python_methods.py      its calls
python_starts.py        what it starts and whom it calls
mentions.py             languages that are not followed
facts.py, judging.py    what was gathered → findings
check.py                one file, from bytes to a report
telling.py, sarif.py    reports for people and for tools
changes.py, fixing.py   changes that need no thought
submission.py           what sbatch tells of its job script
"""
