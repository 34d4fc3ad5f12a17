#!/usr/bin/env bash
# Started by srun on each node. Usage: entry.sh CONFIG [OVERRIDES…]
set -Eeuo pipefail

die()  { echo "entry: $*" >&2; exit 1; }
info() { [ "${SLURM_PROCID:-0}" -ne 0 ] || echo "entry: $*"; }

[ $# -ge 1 ] || die "no CONFIG"
config=$1; shift
[ -r "$config" ] || die "$config: cannot be read"

first_host() {
    local list=$1
    if command -v scontrol > /dev/null; then
        scontrol show hostnames "$list" | head -n 1
    else
        # In the container there is no scontrol.
        sed -E 's/^([^[,]+)(\[([0-9]+)[^]]*\])?.*/\1\3/' <<< "$list"
    fi
}

port_for() {
    echo $(( 15000 + $1 % 20000 ))
}

gpus=$(nvidia-smi --list-gpus | wc -l)
[ "$gpus" -gt 0 ] || die "no GPU on $(hostname)"

if [ -n "${SLURM_JOB_ID:-}" ]; then
    MASTER_ADDR=$(first_host "$SLURM_JOB_NODELIST")
    MASTER_PORT=$(port_for "$SLURM_JOB_ID")
    nnodes=${SLURM_NNODES:-1}
    node_rank=$SLURM_NODEID
else
    MASTER_ADDR=localhost
    MASTER_PORT=29500
    nnodes=1
    node_rank=0
fi
export MASTER_ADDR MASTER_PORT
info "master $MASTER_ADDR:$MASTER_PORT, $nnodes nodes, list ${SLURM_JOB_NODELIST:-none}"

# The NIC through which the master is reached.
if [ "$nnodes" -gt 1 ]; then
    ip=$(getent hosts "$MASTER_ADDR" | awk '{print $1}')
    iface=$(ip -o route get "$ip" | sed -n 's/.* dev \([^ ]*\).*/\1/p')
    export NCCL_SOCKET_IFNAME=$iface GLOO_SOCKET_IFNAME=$iface
fi

export OMP_NUM_THREADS=$(( $(nproc) / gpus ))
export TOTAL_GPUS=$(( SLURM_JOB_NUM_NODES * gpus ))
ulimit -n 65536 || true

launcher=(
    torchrun
    --nnodes "$nnodes"
    --node-rank "$node_rank"
    --nproc-per-node "$gpus"
    --master-addr "$MASTER_ADDR"
    --master-port "$MASTER_PORT"
)

if [ "${PROFILE:-0}" = 1 ]; then
    launcher=(nsys profile -o "prof-$SLURM_JOB_ID-$node_rank" "${launcher[@]}")
fi

peers=$(scontrol show hostnames | tr '\n' ' ')
exec "${launcher[@]}" train.py --config "$config" --peers "$peers" --world-size "$TOTAL_GPUS" "$@"
