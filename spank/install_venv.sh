#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install_venv.sh VENV TO PREFIX: puts the built environment at TO/venv, to be used at PREFIX/venv.
# The one in place is swapped in two renames, for steps that are being guarded read from it.
set -eu
umask 022
venv=$1 to=$2 prefix=$3

rm -rf "$to/.venv.new" "$to/.venv.old"
# Not the owner: root must not run files of whoever built them.
cp -dR --preserve=mode,timestamps "$venv" "$to/.venv.new"
# Readable by all, whatever umask it was built under.
chmod -R u+rwX,go+rX,go-w "$to/.venv.new"
# Only the interpreter is started by a path; programs that pip wrote name the build directory.
find "$to/.venv.new/bin" ! -type d ! -name 'python*' -delete
sed -i "s|^command = .*|command = made by stepguard for $prefix/venv|" "$to/.venv.new/pyvenv.cfg"
"$to/.venv.new/bin/python" -I -m compileall -q -s "$to/.venv.new" -p "$prefix/venv" "$to/.venv.new/lib"

if [ -e "$to/venv" ]; then
	mv -T "$to/venv" "$to/.venv.old"
fi
mv -T "$to/.venv.new" "$to/venv"
rm -rf "$to/.venv.old"
