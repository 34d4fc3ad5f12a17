#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs Debian's PyTorch, for the CPU and with gloo, which only the story of a splice needs; nothing when it is there.
set -eu

download_mib=220 unpacked_mib=1100 # bookworm 143 and 613 MB, trixie 179 and 912, sid 216 and 1073
tests=$(dirname "$0")/../tests

! dpkg-query --show --showformat '${db:Status-Status}' python3-torch 2>/dev/null | grep -qx installed || exit 0
for directory in /usr /var/cache/apt; do
	free_mib=$(df --output=avail --block-size=1M $directory | tail -n 1)
	if [ "$free_mib" -lt $((download_mib + unpacked_mib)) ]; then
		echo "stepguard: python3-torch needs up to $((download_mib + unpacked_mib)) MiB:" \
			"$directory has $free_mib MiB free: make room" >&2
		exit 1
	fi
done
echo "this story needs PyTorch: up to $download_mib MiB to download and $unpacked_mib MiB of disk, which takes minutes"
exec "$tests/install_packages.sh" python3-torch
