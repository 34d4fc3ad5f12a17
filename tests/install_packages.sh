#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs by apt what building, testing and demonstrating stepguard needs on Debian 12 or 13, as far as it is missing.
# More packages may be named on the command line.
#
# Changes nothing, and needs neither root nor a network, when all is there. No service is started by it, and none that
# it installs will start at the next boot: the lab runs daemons of its own.
set -eu

slurm="slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins slurm-wlm-mysql-plugin munge mariadb-server"
hosts="iproute2 procps util-linux systemd" # for its journald
build="gcc libc6-dev libslurm-dev make python3-dev libpython3-dev python3-venv ca-certificates"
checks="shellcheck python3-numpy" # numpy: what demo/train.py trains with

policy=/usr/sbin/policy-rc.d

main() {
	# shellcheck disable=SC2086 # lists of words
	missing=$(missing_of $slurm $hosts $build $checks "$@")
	[ -n "$missing" ] || return 0
	# shellcheck disable=SC2086
	set -- $missing
	if [ "$(id -u)" -ne 0 ]; then
		echo "stepguard: packages are missing: run this as root, or: apt-get install --no-install-recommends $*" >&2
		return 1
	fi
	echo "installing by apt: $*"
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	forbid_services "$@"
	if ! { run_apt "$@" && keep_services_off "$@"; } >"$log" 2>&1; then
		cat "$log" >&2
		echo "stepguard: packages were not installed: $*: see above" >&2
		return 1
	fi
}

run_apt() {
	export DEBIAN_FRONTEND=noninteractive
	apt-get -q update && apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 install "$@"
}

# Those of the packages that are not installed, one a line.
missing_of() {
	# dpkg-query fails when it does not know one of them, and tells about the others all the same.
	installed=$(dpkg-query --show --showformat '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
		sed -n 's/^installed //p')
	for package; do
		echo "$installed" | grep -qx "$package" || echo "$package"
	done
}

# invoke-rc.d and deb-systemd-invoke ask this file (invoke-rc.d(8)). Should we be killed, it forbids nothing any more.
forbid_services() {
	if [ -e $policy ]; then
		status=0
		$policy slurmctld start >/dev/null 2>&1 || status=$?
		[ "$status" -ne 101 ] || return 0
		echo "stepguard: $policy lets packages start daemons: make it exit with 101, or install these: $*" >&2
		exit 1
	fi
	trap 'rm -f $policy "$log"' EXIT
	trap 'exit 130' HUP INT TERM
	printf '%s\n' '#!/bin/sh' "# Of $0, while that runs; if it does not, remove this file." \
		"[ ! -d /proc/$$ ] || exit 101" >$policy
	chmod 755 $policy
}

keep_services_off() {
	command -v systemctl >/dev/null || return 0
	for package; do
		case $package in
		mariadb-server) systemctl disable mariadb ;;
		munge | slurmctld | slurmd | slurmdbd) systemctl disable "$package" ;;
		esac || return
	done
}

main "$@"
