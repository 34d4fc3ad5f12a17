#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first process of a host: makes its namespaces look like a machine of its own, then waits to be killed.
#
# Usage: host.sh LAB NAME LOWER GPUS [PREFIX]
#   LAB     the lab's directory, seen under the same path on every host
#   LOWER   the root file system below the host's own: / or a debootstrap directory
#   GPUS    how many device files /dev/nvidia0… it gets
#   PREFIX  what to show read-only at /opt/stepguard
#
# All that the host writes outside of LAB stays in a tmpfs of its mount namespace and ends with it. LAB/etc/stepguard is
# shown at /etc/stepguard, LAB/disk/NAME at /var/spool/stepguard, where they are there: a disk that outlives a power cut.
set -eu
umask 022
lab=$1 name=$2 lower=$3 gpus=$4 prefix=${5:-}

mount -t tmpfs -o mode=0755 "$name" "$lab/host"
cd "$lab/host"
mkdir upper work root
mount -t overlay -o "lowerdir=$lower,upperdir=$lab/host/upper,workdir=$lab/host/work" "$name" root
cd root
mkdir -p dev proc sys run tmp etc/slurm opt/stepguard

mount -t proc proc proc
# The kernel's is the same on all hosts, and stays when one of them boots again.
cat proc/sys/kernel/random/uuid >"$lab/host/boot_id"
mount --bind "$lab/host/boot_id" proc/sys/kernel/random/boot_id
mount -t sysfs sysfs sys # of this network namespace; no cgroup file systems below
mount -t tmpfs -o mode=0755 run run
mount -t tmpfs -o mode=1777 tmp tmp
mount -t tmpfs -o mode=0755 dev dev
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty dev
: >dev/kmsg # what its kernel says, see lab.kernel: the real one's log is of the whole machine
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin
ln -s /proc/self/fd/1 dev/stdout
ln -s /proc/self/fd/2 dev/stderr
mount -t tmpfs -o mode=1777 shm dev/shm
gpu=0
while [ "$gpu" -lt "$gpus" ]; do
	cp -a /dev/null "dev/nvidia$gpu" # Slurm wants a device before it sets CUDA_VISIBLE_DEVICES
	gpu=$((gpu + 1))
done

mkdir -p ".$lab"
mount --bind "$lab" ".$lab"
mount --bind "$lab/etc/slurm" etc/slurm
if [ -d "$lab/etc/stepguard" ]; then
	mkdir -p etc/stepguard
	mount --bind "$lab/etc/stepguard" etc/stepguard
fi
if [ -d "$lab/disk/$name" ]; then
	mkdir -p var/spool/stepguard
	mount --bind "$lab/disk/$name" var/spool/stepguard
fi
if [ -n "$prefix" ]; then
	mount --bind "$prefix" opt/stepguard
	mount -o remount,bind,ro opt/stepguard
fi
cp "$lab/etc/passwd" "$lab/etc/group" "$lab/etc/hosts" etc/
echo "$name" >/proc/sys/kernel/hostname
echo "$name" >etc/hostname
: >etc/resolv.conf

mkdir .old
pivot_root . .old
cd /
umount -l /.old
rmdir /.old
mkdir -p /var/spool/slurmd /var/spool/slurmctld /run/munge /run/slurm /run/mysqld
ln -s mysqld /run/mariadbd # where 26.05's client library looks for the socket
chown munge: /run/munge
chown mysql: /run/mysqld
chown slurm: /run/slurm /var/spool/slurmctld
echo up
# Orphans are its children; the kernel reaps them while it ignores SIGCHLD.
exec env --ignore-signal=CHLD sleep infinity
