# Real NBD clients: what the server offers them, and that reads return the bytes written.

test_clients_info() {
  need nbdinfo || return
  fresh 256M 256M || return 1
  [ "$(nbdinfo --size "$(uri)")" = 268435456 ] || return 1
  nbdinfo --list "$(uri '')" | grep -q 'export="v"' || return 1
  nbdinfo --map "$(uri)" | grep -q hole
}

# libnbd makes the socket, starts the server with it (LISTEN_FDS), and ends the server.
test_clients_socket_activation() {
  need nbdinfo nbdcopy || return
  fresh 256M 64M && stop || return 1
  local serve=("$SINEW" serve "${members[@]}" --control "$dir/ctl")
  # The server prints to the same output.
  nbdinfo --size -- [ "${serve[@]}" ] | grep -qx 67108864 || return 1
  nbdinfo -- [ "${serve[@]}" ] | grep -q 'description: volume of the Sinew pool t' || return 1
  head -c 64M /dev/urandom >"$dir/in"
  nbdcopy -- "$dir/in" [ "${serve[@]}" ] && nbdcopy -- [ "${serve[@]}" ] "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  if command -v systemd-socket-activate >/dev/null; then
    systemd-socket-activate -l 127.0.0.1:10897 "${serve[@]}" & server=$!
    for _ in $(seq 50); do (echo >/dev/tcp/127.0.0.1/10897) 2>/dev/null && break; sleep 0.1; done
    nbdcopy nbd://127.0.0.1:10897/v "$dir/back" && cmp "$dir/in" "$dir/back" && [ -S "$dir/ctl" ] || return 1
    stop
  fi
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

fio_nbd() { # fio_nbd OPTION...: one job, its report only if it fails
  fio --name=v --ioengine=nbd --uri="$(uri)" --randrepeat=0 --verify_state_save=0 --output="$dir/fio.out" "$@" ||
    { cat "$dir/fio.out"; return 1; }
}

test_clients_fio_verify() {
  need fio || return
  fresh 256M 256M || return 1
  local job
  for job in "randwrite 4k-4k 1" "randwrite 4k-4k 32" "randwrite 512-64k 16" "write 1m-1m 4" "randrw 4k-128k 64" \
    "write 512-512 1" "randwrite 512-512 64" "write 512-1m 16" "randwrite 512-1m 64" "rw 4k-1m 16"; do
    set -- $job
    local io=64M; [ "$2" = 512-512 ] && io=4M
    echo "fio $job"
    fio_nbd --rw="$1" --bsrange="$2" --iodepth="$3" --size=96M --io_size=$io --bs_unaligned=0 --verify=crc32c --do_verify=1 --verify_fatal=1 || return 1
  done
  echo "fio trims"
  fio_nbd --rw=randtrim --bs=64k --iodepth=8 --size=96M --io_size=32M || return 1
  # fio cannot verify a job that also trims, so the job only must not fail.
  fio_nbd --rw=randtrimwrite --bs=4k --iodepth=16 --size=64M --io_size=32M || return 1
  # Data written through one server process is verified through the next.
  fio_nbd --rw=randwrite --bsrange=4k-64k --iodepth=32 --size=96M --randseed=7 --verify=crc32c --do_verify=0 || return 1
  stop && start || return 1
  fio_nbd --rw=randwrite --bsrange=4k-64k --iodepth=32 --size=96M --randseed=7 --verify=crc32c --verify_only --verify_fatal=1
}

attach() { # attach SIZE: the volume as the loop device $loop
  touch "$dir/disk"
  nbdfuse "$dir/disk" "$(uri)" & fuse=$!
  for _ in $(seq 100); do [ "$(stat -c %s "$dir/disk" 2>/dev/null)" = "$1" ] && break; sleep 0.05; done
  loop=$(losetup -f --show --direct-io=on "$dir/disk" 2>/dev/null || losetup -f --show "$dir/disk")
}
detach() {
  losetup -d "$loop"; loop=
  umount "$dir/disk"; wait "$fuse" 2>/dev/null; fuse=
}

test_clients_filesystems() {
  need nbdfuse losetup mkfs.ext4 mkfs.xfs e2fsck xfs_repair fstrim || return
  [ "$(id -u)" = 0 ] && [ -e /dev/fuse ] && losetup -f >/dev/null 2>&1 || { echo "no root, fuse or loop devices"; return 77; }
  local fs stored after bytes=943718400
  for fs in ext4 xfs; do
    fresh 512M 900M || return 1
    mkdir -p "$dir/mnt"
    attach $bytes || return 1
    "mkfs.$fs" -q "$loop" && mount "$loop" "$dir/mnt" || return 1
    cp -r /usr/include "$dir/mnt/tree" && (cd "$dir/mnt" && find tree -type f -print0 | sort -z | xargs -0 sha256sum >sums) || return 1
    tar -C /usr -cf "$dir/mnt/tar" include && tar -C /usr -df "$dir/mnt/tar" || return 1
    sync; stored=$(status stored_bytes)
    rm "$dir/mnt/tar" || return 1
    # xfs frees the space of a deleted file in the background.
    for _ in $(seq 25); do
      sync && fstrim "$dir/mnt" || return 1
      after=$(status stored_bytes)
      [ "$after" -lt "$stored" ] && break; sleep 0.2
    done
    [ "$after" -lt "$stored" ] || { echo "fstrim freed nothing: $stored, then $after"; return 1; }
    umount "$dir/mnt" && filesystem_is_clean || return 1
    mount "$loop" "$dir/mnt" && (cd "$dir/mnt" && sha256sum --quiet -c sums) && umount "$dir/mnt" || return 1
    detach
    stop && start && attach $bytes && filesystem_is_clean || return 1
    mount "$loop" "$dir/mnt" && (cd "$dir/mnt" && sha256sum --quiet -c sums) && diff -r --no-dereference /usr/include "$dir/mnt/tree" && umount "$dir/mnt" || return 1
    detach
  done
}
filesystem_is_clean() { case $fs in ext4) e2fsck -fn "$loop" ;; xfs) xfs_repair -n "$loop" ;; esac; }
