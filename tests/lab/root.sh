#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Works on the root directory of another Debian release, in mount and PID namespaces that end with it.
#
# Usage: root.sh make ROOT SUITE ARCHIVE PACKAGE…   debootstrap it, with these packages
#        root.sh install ROOT SOURCE STAGE          `make install` of SOURCE (a path inside) below STAGE (one outside)
set -eu

# What lets programs inside reach the network as this machine does.
lend() {
	for path in /etc/resolv.conf /etc/pip.conf /etc/ssl/certs /usr/local/share/ca-certificates; do
		[ -e "$path" ] || continue
		if [ -d "$path" ]; then mkdir -p "$1$path"; else [ -e "$1$path" ] || : >"$1$path"; fi
		mount --bind "$path" "$1$path"
	done
}

action=$1 root=$2
shift 2
case $action in
make)
	suite=$1 archive=$2
	shift 2
	debootstrap --variant=minbase "$suite" "$root" "$archive"
	# No daemon is to start because its package is installed.
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
	chmod +x "$root/usr/sbin/policy-rc.d"
	mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
	mount -t proc proc "$root/proc"
	chroot "$root" apt-get install -y --no-install-recommends "$@"
	chroot "$root" apt-get clean
	;;
install)
	source=$1 stage=$2
	lend "$root"
	mount -t proc proc "$root/proc"
	mount -t tmpfs -o mode=0755 stage "$root/mnt"
	mkdir "$root/mnt/stage"
	mount --bind "$stage" "$root/mnt/stage"
	chroot "$root" make -C "$source" install PREFIX=/opt/stepguard DESTDIR=/mnt/stage
	;;
esac
