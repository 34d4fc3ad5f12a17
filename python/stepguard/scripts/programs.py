# SPDX-License-Identifier: Apache-2.0
"""What is known of programs by their names: which only print, which start others elsewhere, which wrap others.

Sources: their manuals; the launchers of PyTorch, DeepSpeed, Ray, Dask, Horovod, Accelerate, Open MPI, MPICH, Intel MPI,
MVAPICH, PRRTE, pdsh, ClusterShell, parallel-ssh, GNU parallel.
"""

from __future__ import annotations

import re

# They print or look, or act on this host alone: nothing that they are told decides where something runs.
HARMLESS = frozenset(
    (".", ":", "[", "alias", "apt", "apt-get", "arping", "awk", "basename", "bc", "break", "bzip2", "cat", "cd",
     "chmod", "chown", "clear", "cluset", "cmp", "column", "comm", "conda", "continue", "cp", "csplit", "curl", "cut",
     "date", "dd", "df", "diff", "dig", "dirname", "dmesg", "dnf", "du", "echo", "egrep", "env", "exit", "export",
     "expr", "false", "fgrep", "file", "find", "fping", "free", "getconf", "getent", "git", "grep", "gunzip", "gzip",
     "hash", "head", "host", "hostlist", "hostname", "hostnamectl", "id", "ifconfig", "ip", "join", "jq", "kill",
     "killall", "less", "let", "ln", "logger", "ls", "lscpu", "lsmod", "lspci", "mail", "man", "mapfile", "md5sum",
     "mkdir", "mktemp", "ml", "module", "more", "mtr", "mv", "nc", "ncat", "nl", "nmap", "nodeset", "nproc", "nslookup",
     "numfmt", "nvidia-smi", "od", "paste", "pgrep", "ping", "pip", "pkill", "popd", "printenv", "printf", "ps",
     "pushd", "pwd", "read", "readarray", "readlink", "realpath", "return", "rev", "rm", "rmdir", "rocm-smi", "sacct",
     "sacctmgr", "scancel", "sed", "seq", "set", "sha256sum", "shift", "shopt", "shuf", "sinfo", "sleep", "sort",
     "source", "spack", "split", "sprio", "squeue", "ssh-keygen", "ssh-keyscan", "sstat", "stat", "stty", "tac", "tail",
     "tar", "tee", "telnet", "test", "touch", "tput", "tr", "traceroute", "trap", "true", "type", "ulimit", "umask",
     "unalias", "uname", "uniq", "unset", "unzip", "uptime", "wait", "wait-for-it", "wait-for-it.sh", "wc", "wget",
     "which", "who", "xxd", "xz", "yes", "yum", "zip", "zstd", "zypper")
)  # fmt: skip

# Options of tools by which they print how many there are, not which: ClusterShell's, and python-hostlist's.
COUNTING: dict[str, frozenset[str]] = {
    "cluset": frozenset(("-c", "--count")),
    "grep": frozenset(("-c", "-cv", "-vc", "--count")),
    "hostlist": frozenset(("-n", "--count")),
    "nodeset": frozenset(("-c", "--count")),
}

# They start something elsewhere, or tell something elsewhere how it finds its peers.
LAUNCHERS = frozenset(
    ("accelerate", "ansible", "ansible-playbook", "aprun", "beeond", "bpsh", "charmrun", "clush", "colossalai",
     "composer", "dask-scheduler", "dask-ssh", "dask-worker", "deepspeed", "dsh", "fabric", "flux", "gasnetrun_ibv",
     "gaspi_run", "horovodrun", "hydra-pmi", "hydra_pmi_proxy", "ibrun", "jsrun", "legate", "lightning", "mpdboot",
     "mpiexec", "mpiexec.hydra", "mpiexec.slurm", "mpirun", "mpirun_rsh", "mussh", "orterun", "oshrun", "parallel",
     "parallel-scp", "parallel-ssh", "pdcp", "pdsh", "pnuke", "prrte", "prsync", "prterun", "prun", "pscp", "psh",
     "pssh", "ray", "redis-cli", "rpdcp", "rsh", "rsync", "rungms", "rush", "sbcast", "scp", "sftp", "spark-class",
     "spark-submit", "ssh", "torchrun", "torchx", "upcrun", "upcxx-run")
)  # fmt: skip

# They copy: what stands before a colon is a host, all else a path.
COPIERS = frozenset(("rsync", "scp", "sftp"))

# Launchers that launch the program behind their own options; those of the second set take -m MODULE for it, too.
PROGRAM_LAUNCHERS = frozenset(
    ("aprun", "charmrun", "horovodrun", "ibrun", "jsrun", "mpiexec", "mpiexec.hydra", "mpiexec.slurm", "mpirun",
     "mpirun_rsh", "orterun", "prterun", "prun", "spark-submit")
)  # fmt: skip
MODULE_LAUNCHERS = frozenset(("accelerate", "colossalai", "composer", "deepspeed", "torchrun"))
TAKES_TWO = frozenset(("mca", "gmca", "pmixmca", "prtemca", "env", "genv"))  # of mpirun
# Options whose value is a file or folder, and not the program.
TAKES_FILE = frozenset(("f", "files", "jars", "nodelist", "path", "prefix", "py-files", "wd", "wdir", "x"))

# They tell nothing about which work a command line is; what they run does.
INTERPRETERS = frozenset(
    ("accelerate", "apptainer", "bash", "deepspeed", "env", "exec", "nsys", "numactl", "python", "python2",
     "python3", "sh", "singularity", "time", "torchrun", "zsh")
)  # fmt: skip

SHELLS = frozenset(("bash", "sh", "zsh", "ksh", "dash"))

# Wrappers of another command: options that take the next word, and how many words stand before the command.
WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    "time": (frozenset(("-f", "-o")), 0),
    "nohup": (frozenset(), 0),
    "nice": (frozenset(("-n",)), 0),
    "ionice": (frozenset(("-c", "-n")), 0),
    "timeout": (frozenset(("-k", "-s")), 1),
    "stdbuf": (frozenset(("-i", "-o", "-e")), 0),
    "setsid": (frozenset(), 0),
    "numactl": (frozenset(("-N", "-m", "-C", "-i", "-p")), 0),
    "taskset": (frozenset(), 1),
    "sudo": (frozenset(("-u", "-g", "-C")), 0),
    "command": (frozenset(), 0),
    "exec": (frozenset(("-a",)), 0),
    "builtin": (frozenset(), 0),
    "coproc": (frozenset(), 0),
    "unbuffer": (frozenset(), 0),
    "strace": (frozenset(("-o", "-e", "-p")), 0),
    "noglob": (frozenset(), 0),
    "-": (frozenset(), 0),
}

# They are told a command as text, in one word; at and batch on their input.
TEXT_RUNNERS = frozenset(
    ("at", "batch", "clush", "flock", "pdsh", "rsh", "runuser", "screen", "script", "sg", "ssh", "su", "tmux", "watch",
     "xterm")
)  # fmt: skip
SSH_TAKES_VALUE = frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOopQRSWw")
PARALLEL_TAKES_VALUE = frozenset(
    ("--arg-file", "--delay", "--joblog", "--jobs", "--retries", "--slf", "--sshlogin", "--sshloginfile", "--timeout",
     "--wd", "--workdir", "-a", "-j", "-n", "-N", "-P", "-S")
)  # fmt: skip

# They run a program that is given as a word: perl -e CODE, matlab -batch CODE.
CODE_RUNNERS = frozenset(("julia", "lua", "matlab", "node", "octave", "perl", "php", "Rscript", "ruby"))

# They print or launch, but run another command, too, when one stands behind them.
RUNNERS = frozenset(("conda", "find", "ssh", "rsh"))

# What an unknown program is taken to run when it stands among its words with options behind it: nsys profile srun -n 4.
COMMANDS = (LAUNCHERS - {"fabric", "lightning", "parallel", "prun", "ray"}) | {"srun", "sbatch", "salloc"}

# Options that name the program that another one launches with, not a command: --launcher srun, -bootstrap srun.
NAMES_LAUNCHER = re.compile(
    r"(?i)^[-+]+[\w-]*(?:launch|boot|mpi|runner|rsh|remote|sched|backend|engine|mode|type|with)\w*$"
)

# python -m MODULE that is a launcher.
LAUNCHER_MODULES = re.compile(
    r"torch\.distributed\.(?:run|launch|launcher\S*)|accelerate\.\S+|deepspeed\.\S+|horovod\.runner\S*|colossalai\S*"
)

# Options of programs that start their own processes on the nodes (their manuals), by the name without its version.
_PLACING_OPTIONS = {
    "abaqus": re.compile(r"cpus"),
    "abq": re.compile(r"cpus"),
    "ansys": re.compile(r"machines|np"),
    "ansysedt": re.compile(r"machinelist"),
    "cfx5solve": re.compile(r"par-dist|part(?:ition)?"),
    "comsol": re.compile(r"nn|nnhost|f"),
    "julia": re.compile(r"p|machine-file"),
    "fluent": re.compile(r"cnf|t"),
    "mapdl": re.compile(r"machines|np"),
    "starccm+": re.compile(r"on|np"),
}

# Options by which a program is tuned: no number of nodes in them says where it runs.
TUNING = re.compile(
    r"(?i)(?:^|[-_.+])(?:lr|learning[-_]rate|seed|\w*batch(?:[-_]?size)?|mbs|gbs|epochs?|\w*steps?|iters?|iterations"
    r"|warmup\w*|\w*decay|momentum|accum\w*|grad\w*|dropout|temperature)(?:$|[-_.])"
)

# Files that programs read without being told of them: Hadoop, Spark, Flink, HBase; Abaqus; MPICH 1, LAM, PVM; WIEN2k.
KNOWN_FILES = frozenset(
    ("workers", "slaves", "masters", "regionservers", "abaqus_v6.env", "mpd.hosts", "machines.LINUX", "lamhosts",
     "pvmhosts", ".machines")
)  # fmt: skip
# Files by which launchers are told of nodes, mostly by another script.
HOST_FILE = re.compile(r"(?i)(?:.*[-_./])?(?:host|machine)_?files?(?:[-_./$].*)?")
# Such files of one program: ORCA takes INPUT.nodes.
OWN_FILES = {"orca": re.compile(r".+\.nodes")}

# Keys of settings that describe a run.
DESCRIBING_KEY = re.compile(r"(?i)run|job|trial|meta(?:data)?|info|version|group|created|started(?:_on)?|author")

# The last word of options that describe, whatever stands before it: --nodes-label; or that say no host: --master-port.
DESCRIBING = re.compile(r"(?i)[-_.](?:label|tags?|title|comment|notes?|desc|description|logs?|report|message|ports?)$")

# Options by which programs write what they are told into a file, and names of programs that do: crudini --set FILE,
# yq -i, gen_hosts.sh LIST FILE.
WRITING_OPTION = re.compile(
    r"(?i)-(?:-?set|-?in-?place|-?out(?:put)?(?:[-_]file)?|-?write|[a-z]{0,3}i[a-z]{0,3}|o)(?:=.*)?"
)
WRITING_PROGRAM = re.compile(
    r"(?i)(?:^|[-_.])(?:crudini|yq|dasel|augtool|gen|generate|make|mk|write|render|template|create|build|config|configure"
    r"|prepare|set|setup|update|fill|expand|to|dump|export|save|settings|hosts?)(?:$|[-_.])"
    r"|(?:host|machine|node)_?(?:file|list)"
)

# Names of programs that start or reach something elsewhere, as far as names tell: start_cluster, deploy.sh, runOnAll.
_STARTING_PROGRAM = re.compile(
    r"(?:^|[-_.])(?i:(?:re)?start|launch|launcher|run|runner|deploy|spawn|boot|bootstrap|serve|bring[-_]?up|cluster|setup"
    r"|connect|distribute|scatter|broadcast|bcast|sync|push|stage|exec|mpi|ssh|everywhere|remote)(?=$|[-_.\dA-Z])"
)
# Of those, names of programs that only tell of it.
_TELLING_PROGRAM = re.compile(
    r"(?i)(?:^|[-_.])(?:log|logs|logger|logging|log2\w+|print|show|report|reports|info|notify|notifier|record|track|tracker"
    r"|banner|mail|slack|message|status|check|validate|verify|test|summary|describe|post|metrics|stats|upload|archive|collect|plot|wandb|mlflow|history)(?:$|[-_.])"
)

# Options whose value names or describes something, and decides nothing.
NAMING = re.compile(
    r"(?i)(?:^|[-_.+])(?:name|names|log|logs|logdir|logging|out|output|outdir|outputs|error|err|tag|tags|project|comment"
    r"|title|report|wandb|tensorboard|tb|experiment|exp|save|prefix|suffix|id|note|notes|desc|description|label|dir"
    r"|folder|path|ports?|checkpoint|ckpt|info|meta|metadata|manifest|provenance|summary|readme|bind|mounts?|volumes?|J|o|e)"
    r"(?:$|[-_.])"
)

# Options that tell a program, wherever it is started, where its peers are or how many.
DECIDING = re.compile(
    r"(?i)(?:^|[-_.+])(?:nnodes|num[-_]?nodes|n[-_]?nodes|nodes|node[-_]?count|master[-_]?\w*|rdzv[-_]?endpoint|head[-_]?\w*"
    r"|hosts?|host[-_]?file|machine[-_]?file|node[-_]?file|node[-_]?list|world[-_]?size|num[-_]?machines|main[-_]process\w*"
    r"|dist[-_]url|init[-_]method|coordinator\w*|num[-_]processes|addr(?:ess)?|server\w*|peers?|ip|\w*parallel[-_]size"
    r"|world|nl|num-?locales|replicas|dp(?:[-_](?:size|degree))?|expect(?:ed)?|quorum|(?:n|num|total|min|max)?[-_]?(?:gpus|ranks|procs?|tasks|hosts|machines)"
    r"|(?:n|num|total|min|max)[-_]?(?:replicas|instances|devices|servers|workers|clients|actors|agents|trainers|members))(?:$|[-_.=])"
)


# Options by which a program is told whom to reach, where their value, or the file of that name, names nodes; a number
# says nothing of that.
CONNECTING = re.compile(
    r"(?i)(?:^|[-_.+])(?:ur[il]|endpoints?|scheduler|connect|leader|root|rank0|chief|main|primary|dest|destination"
    r"|targets?|workers?|clients?|clusters?|brokers?|bootstrap|join|remote|controllers?|managers?|dispatcher|proxy|gateway|etcd|redis"
    r"|db|database|link|rpc|contact|backend|frontend|machines?|seeds?|agents?|members?|broadcast"
    r"|config|cfg|conf|settings|inventory|topology|spec|H|w)(?:$|[-_.=])"
)


def base(text: str) -> str:
    """A program's name without its folder."""
    return text.rpartition("/")[2]


def is_python(name: str) -> bool:
    """Whether it is a Python interpreter."""
    return name.startswith(("python", "pypy")) and not name.endswith(".py")


def may_start(name: str) -> bool:
    """Whether a program that is not known starts something elsewhere, by its name."""
    return _STARTING_PROGRAM.search(name) is not None and not only_tells(name)


def only_tells(name: str) -> bool:
    """Whether a program that is not known only tells of the job, by its name."""
    return _TELLING_PROGRAM.search(name) is not None


def placing_options(name: str) -> re.Pattern[str] | None:
    """The options that say where the program runs, beyond those that DECIDING knows; None where there are none."""
    return _PLACING_OPTIONS.get(name) or _PLACING_OPTIONS.get(name.rstrip("0123456789."))
