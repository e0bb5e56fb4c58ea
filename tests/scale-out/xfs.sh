#!/bin/bash
# Joins three tasks on an XFS in a file: the blocks of the output are those of the pieces, and
# `--link reflink` shares whole files. Exit 77 (skipped) where nothing may be mounted.
# usage: xfs.sh ROOT MOEPACK WORK_DIR
set -eu
root=$1 moepack=$2 work=$3
. "$root/tests/scale-out/sample.sh"

command -v mkfs.xfs >/dev/null || skip "mkfs.xfs (xfsprogs) is not installed"
[ "$(id -u)" -eq 0 ] || skip "only root may mount"
if [ -z "${MOEPACK_XFS_INSIDE-}" ]; then
  unshare -m true 2>/dev/null || skip "there are no mount namespaces"
  MOEPACK_XFS_INSIDE=1 exec unshare -m "$0" "$@"
fi

# A path of its own for the disk: `prepare` empties the folder that it works in.
disk=$work.image
rm -f "$disk"
truncate -s 512M "$disk"
mkfs.xfs -q -m reflink=1 "$disk"
rm -rf "$work"
mkdir -p "$work"
reason=$(mount -o loop "$disk" "$work" 2>&1) || {
  rm -f "$disk"
  skip "a loop device cannot be mounted: $reason"
}
trap 'cd /; umount "$work"; rm -f "$disk"' EXIT
used() {
  sync -f "$work"
  df --output=used -k "$work" | tail -n 1
}

# `whole` is made of the same source beside the tasks, and takes room of its own.
cd "$work"
cp -r "$root/fixtures/tiny-moe" source
"$moepack" build source --groups 3 --no-task --no-verify -o whole >/dev/null
for task in 0 1 2; do
  "$moepack" build source --groups 3 --quantize Q4_K_M --task $task/3 -o quantized >/dev/null
  "$moepack" build source --groups 3 --task $task/3 -o copied >/dev/null
done
"$moepack" build source --groups 3 --quantize Q4_K_M --no-task --no-verify -o whole-quantized \
  >/dev/null
for name in quantized copied; do
  before=$(used)
  "$moepack" join $name.tasks -o $name >/dev/null
  grown=$(($(used) - before))
  size=$(du -sk --apparent-size $name | cut -f 1)
  echo "join of $name: $size KiB of files, $grown KiB more on the disk"
  [ "$grown" -lt 2048 ] || { echo "expected less than 2048 KiB, found $grown"; exit 1; }
done
diff -r whole copied
diff -r whole-quantized quantized

before=$(used)
"$moepack" publish whole --to-dir published --link reflink --json >published.json
grown=$(($(used) - before))
echo "publish --link reflink: $grown KiB more on the disk"
[ "$grown" -lt 2048 ] || { echo "expected less than 2048 KiB, found $grown"; exit 1; }
# Assets are small, and always copied.
shared=$(grep -A 2 'safetensors"' published.json | grep -c '"how": "reflink"')
[ "$shared" -eq "$(find whole -name '*.safetensors' | wc -l)" ] || { cat published.json; exit 1; }
