# Become a program in a pod: enter.sh ROOT CLOSED INTERPRETER COMMAND... in a mount namespace of its own.
# The root file system read-only, devices, processes, and nothing else that is mounted. Every shell is gone. An
# interpreter in a folder that is closed to others (such as /root) is shown at its place, with nothing else of it.
set -eu
root=$1 closed=$2 interpreter=$3; shift 3
mount --make-rprivate /
mount --bind / "$root"
mount -o remount,bind,ro "$root"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o ro,size=4k none "$root/dev/shm"
if [ "$closed" ]; then
  mount -t tmpfs -o mode=755,size=64k none "$root$closed"
  mkdir -p "$root$interpreter"
  mount --bind "$interpreter" "$root$interpreter"
  mount -o remount,bind,ro "$root$interpreter"
  mount -o remount,ro "$root$closed"
fi
for shell in sh bash dash ash; do
  for folder in /bin /usr/bin; do
    there=$(readlink -f "$folder/$shell") || continue
    [ -s "$root$there" ] && mount --bind /dev/null "$root$there"
  done
done
exec chroot "$root" "$@"
