# SPDX-License-Identifier: Apache-2.0
"""All that talks with Slurm."""
