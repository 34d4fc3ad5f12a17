#!/bin/bash
salloc --auto-resume=1 --nodes=4 --exclusive --time=60 ./interactive.sh
