#!/bin/bash
me=$(hostname | cut -d. -f1)
if test "$me" != "$(scontrol show hostnames | head -n 1)"; then
    echo "task $SLURM_PROCID has nothing to do"
    exit 0
fi
./serve
