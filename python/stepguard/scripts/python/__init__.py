# SPDX-License-Identifier: Apache-2.0
"""Python programs, by Python's ast, in the order in which they run.

reader.py, inline.py    a whole program, and one that a shell script has in it
nodes.py, things.py, texts.py           what an expression may be
program.py              what the names, the environment and the files of a program hold
expressions.py, containers.py, binding.py, statements.py, branches.py   its course
calls.py, library.py, call.py, functions.py, methods.py   its calls
starts.py               what it starts and whom it calls
"""
