# SPDX-License-Identifier: Apache-2.0
"""The command line: one module a verb; group finds it. Nothing is imported here: `supervise` and `watch` run beside
every guarded step and do without click."""
