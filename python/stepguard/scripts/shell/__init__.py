# SPDX-License-Identifier: Apache-2.0
"""Shell scripts, by tree-sitter's grammar of bash.

tree.py                 a script as a tree
words.py, redirects.py, builder.py, oddities.py, limits.py, reader.py   tree-sitter's tree → ours
expand.py, statements.py, branching.py, walk.py   follows a script as a shell would run it
assigning.py, builtins.py, tools.py, outputs.py, carriers.py, interpreters.py, commands.py   what commands do to values,
                        what they write, and which run others
arguments.py            which arguments decide where something runs
uses.py                 what decides where something runs, by words, environment or files
launching.py, setup.py  what is started with which values, what prepares nodes
"""
