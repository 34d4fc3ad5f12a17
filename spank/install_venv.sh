#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install_venv.sh VENV TO PREFIX: puts the built environment at TO/venv, to be used at PREFIX/venv.
# TO/venv is a link that is changed in one step, for steps that start in the middle read from it, and the environment
# before stays until the next installation, for steps that started just now do. Exchanging two directories would need
# no link, but not every shared file system can.
set -eu
umask 022
venv=$1 to=$2 prefix=$3

before=$(readlink "$to/venv" || true)
name=.venv.$(date +%s).$$
new=$to/$name
# Not the owner: root must not run files of whoever built them.
cp -dR --preserve=mode,timestamps "$venv" "$new"
# Readable by all, whatever umask it was built under.
chmod -R u+rwX,go+rX,go-w "$new"
# Only the interpreter is started by a path; programs that pip wrote name the build directory.
find "$new/bin" ! -type d ! -name 'python*' -delete
sed -i "s|^command = .*|command = made by stepguard for $prefix/venv|" "$new/pyvenv.cfg"
"$new/bin/python" -I -m compileall -q -s "$new" -p "$prefix/venv" "$new/lib"

ln -s "$name" "$to/.venv.link.$$"
if [ -d "$to/venv" ] && [ ! -L "$to/venv" ]; then
	rm -rf "$to/venv"
fi
mv -T "$to/.venv.link.$$" "$to/venv"
for old in "$to"/.venv.*; do
	case ${old##*/} in "$name" | "$before") ;; *) rm -rf "$old" ;; esac
done
