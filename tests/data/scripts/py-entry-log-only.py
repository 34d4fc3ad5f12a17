import logging
import os

log = logging.getLogger(__name__)


def banner() -> None:
    log.info("nodes: %s", os.environ.get("SLURM_JOB_NODELIST", "none"))
    print(f"rank {os.environ['SLURM_PROCID']} of {os.environ['SLURM_NTASKS']}, {os.environ.get('SLURM_NNODES')} nodes")


if __name__ == "__main__":
    banner()
