# Real NBD clients: what they see, and that bytes come back as they went.

test_clients_info() {
  need nbdinfo || return
  fresh 256M 256M || return 1
  [ "$(nbdinfo --size "$(uri)")" = 268435456 ] || return 1
  nbdinfo --list "$(uri '')" | grep -q 'export="v"' || return 1
  nbdinfo --map "$(uri)" | grep -q hole
}

test_clients_nbdcopy() {
  need nbdcopy || return
  fresh 256M 256M || return 1
  head -c 100M /dev/urandom >"$dir/in"; truncate -s 256M "$dir/in"
  nbdcopy "$dir/in" "$(uri)" && nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  stop && start && nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back"
}

test_clients_qemu() {
  need qemu-img || return
  fresh 256M 256M || return 1
  head -c 90M /dev/urandom >"$dir/in"; truncate -s 256M "$dir/in"
  qemu-img convert -n -f raw -O raw "$dir/in" "$(uri)" || return 1
  qemu-img compare -f raw -F raw "$dir/in" "$(uri)" || return 1
  qemu-img convert -f raw -O qcow2 "$(uri)" "$dir/out.qcow2" && qemu-img compare -f raw -F qcow2 "$dir/in" "$dir/out.qcow2"
}

test_clients_fio_verify() {
  need fio || return
  fresh 256M 256M || return 1
  local job
  for job in "randwrite 4k-4k 1" "randwrite 4k-4k 32" "randwrite 512-64k 16" "write 1m-1m 4" "randrw 4k-128k 64"; do
    set -- $job
    fio --name=v --ioengine=nbd --uri="$(uri)" --rw="$1" --bsrange="$2" --iodepth="$3" --size=96M --io_size=64M \
      --verify=crc32c --verify_state_save=0 --do_verify=1 --verify_fatal=1 --randrepeat=0 --output="$dir/fio.out" || { cat "$dir/fio.out"; return 1; }
  done
  fio --name=t --ioengine=nbd --uri="$(uri)" --rw=randtrim --bs=64k --iodepth=8 --size=96M --io_size=32M --output="$dir/fio.out"
}

test_clients_filesystems() {
  need nbdfuse losetup mkfs.ext4 mkfs.xfs || return
  [ "$(id -u)" = 0 ] && [ -e /dev/fuse ] && losetup -f >/dev/null 2>&1 || { echo "no root, fuse or loop devices"; return 77; }
  local fs
  for fs in ext4 xfs; do
    fresh 512M 900M || return 1
    mkdir -p "$dir/fuse" "$dir/mnt"; touch "$dir/fuse/disk"
    nbdfuse "$dir/fuse/disk" "$(uri)" & local fuse=$!
    for _ in $(seq 100); do [ "$(stat -c %s "$dir/fuse/disk" 2>/dev/null)" = 943718400 ] && break; sleep 0.05; done
    loop=$(losetup -f --show --direct-io=on "$dir/fuse/disk" || losetup -f --show "$dir/fuse/disk") || return 1
    "mkfs.$fs" -q "$loop" && mount "$loop" "$dir/mnt" || return 1
    cp -r /usr/include "$dir/mnt/tree" && (cd "$dir/mnt" && find tree -type f -print0 | sort -z | xargs -0 sha256sum >sums) || return 1
    fstrim "$dir/mnt" 2>/dev/null
    umount "$dir/mnt" || return 1
    case $fs in ext4) e2fsck -fn "$loop" ;; xfs) xfs_repair -n "$loop" ;; esac || return 1
    mount "$loop" "$dir/mnt" && (cd "$dir/mnt" && sha256sum --quiet -c sums) || return 1
    umount "$dir/mnt"; losetup -d "$loop"; loop=; umount "$dir/fuse/disk"; wait "$fuse" 2>/dev/null
  done
}
