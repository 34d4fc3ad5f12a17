# SPDX-License-Identifier: Apache-2.0
"""stepguard: keeps Slurm training steps alive and keeps the record of every job."""

__version__ = "0.1.0"
