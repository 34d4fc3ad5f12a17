# SPDX-License-Identifier: Apache-2.0
"""Looks at one source of a node's health each, in a child process of its own: a driver that hangs hangs only that.

A probe is a module with `run(settings: Settings) -> Report`; it is imported and run by stepguard.health.probe_child
alone. table names them all.

settings  what a probe is told                     document  a report as JSON, between child and parent
nvml      NVIDIA GPUs: nvml_reading reads one by nvml_numbers, nvml_judging says what of it is a finding
"""
