#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# make_package.sh BUILD: from a built tree, BUILD/package/cairn-VERSION-linux-ARCH.tar.gz, which runs
# wherever it is unpacked, and cairn_VERSION_ARCH.deb. Both hold Arrow and every library beyond libc
# and libstdc++, so neither needs another repository.
set -euo pipefail
build=$1
out=$build/package
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
arch=$(dpkg --print-architecture)
name=cairn-$version-linux-$(uname -m)

rm -rf "$out"
mkdir -p "$out"
cmake --install "$build" --prefix "$out/$name" --strip >"$out/install.log"
tar -czf "$out/$name.tar.gz" --owner=0 --group=0 --sort=name -C "$out" "$name"

root=$out/deb
mkdir -p "$root/DEBIAN" "$root/usr"
cp -a "$out/$name/." "$root/usr/"
mv "$root/usr/share/doc/cairn/LICENSE" "$root/usr/share/doc/cairn/copyright"
# The floor is the C library that the tree was built with.
libc=$(dpkg-query -W -f '${Version}' libc6 | cut -d- -f1)
cat >"$root/DEBIAN/control" <<CONTROL
Package: cairn
Version: $version
Architecture: $arch
Maintainer: The Cairn authors <cairn@localhost>
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: libc6 (>= $libc), libstdc++6, libgcc-s1
Section: database
Priority: optional
Description: durable keyed state and exactly-once checkpoints for streams
 The cairn command, libcairn with its C++ and C headers, and a CMake package.
CONTROL
printf '#!/bin/sh\nset -e\nldconfig\n' >"$root/DEBIAN/postinst"
chmod 755 "$root/DEBIAN/postinst"
dpkg-deb -Zgzip --root-owner-group --build "$root" "$out/cairn_${version}_$arch.deb" >/dev/null
rm -rf "$root" "$out/$name"
ls -l "$out"
