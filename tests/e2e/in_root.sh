#!/bin/sh
# image/assemble.sh inside of a root: ROOT TREE STEP, and perhaps a command that mounts the root first.
set -eu
root=$1 tree=$2 step=$3; shift 3
mount --make-rprivate /
[ $# -eq 0 ] || "$@"
mkdir -p "$root/src" "$root/opt"
mount --bind "$tree" "$root/src"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp /etc/ssl/certs/ca-certificates.crt "$root/tmp/ca.crt"
cp /etc/resolv.conf "$root/etc/resolv.conf"
env -i PATH=/usr/bin:/bin HOME=/root PIP_CERT=/tmp/ca.crt PIP_DEFAULT_TIMEOUT=180 TOPOSCOPE_RELEASE=1 \
  "$(command -v chroot)" "$root" /src/image/assemble.sh "$step" /opt/toposcope
rm -rf "$root/root/.cache" "$root"/tmp/* "$root/etc/resolv.conf"
