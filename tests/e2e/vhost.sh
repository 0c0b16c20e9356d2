# Volumes as disks of virtual machines, over vhost-user: Linux under QEMU, without KVM.

need_vm() {
  need qemu-system-x86_64 modprobe busybox cpio fio mkfs.ext4 nbdcopy || return
  ls /boot/vmlinuz-*cloud-* >/dev/null 2>&1 || { echo "no kernel for guests"; return 77; }
}
# Boots Linux with the disk at $vm/disk: guest STEP [NAME=VALUE]... -- [options of QEMU]
guest() {
  timeout 300 "$here/../vm/run" "$vm" "$here/vhost_job" STEP="$@" -smp 2 \
    -chardev "socket,id=disk,path=$vm/disk,reconnect=1" -device vhost-user-blk-pci,chardev=disk,num-queues=2 >"$vm/qemu.log" 2>&1
  [ -s "$vm/said" ] || { echo "the guest did nothing"; cat "$vm/qemu.log"; tail -n 12 "$vm/console"; return 1; }
}
# Whether the guest has said all of these lines.
guest_said() {
  local line
  for line in "$@"; do
    grep -qx "$line" "$vm/said" || { echo "the guest did not say: $line"; cat "$vm/said"; tail -n 20 "$vm/console"; return 1; }
  done
}
# Makes a pool with the volume v, and serves it at $vm/disk.
vm_fresh() {
  vm=$dir/vm; rm -rf "$vm"; mkdir "$vm"
  fresh 64M 96M --shards 2 || return 1
  stop
  start --vhost-user "v=$vm/disk" --socket-mode 0600
}

test_vhost_linux() {
  need_vm || return
  vm_fresh || return 1
  [ "$(stat -c %a "$vm/disk")" = 600 ] || { echo "mode of the socket"; return 1; }
  guest first -- || return 1
  guest_said "size $((96 << 20))" "serial v" "blocks 512 4096 write back" "queues 2" discards verified punched filled || return 1
  # The same bytes over NBD, before and after a crash of the server.
  nbdcopy "$(uri v)" "$vm/before" && stop -KILL && start --vhost-user "v=$vm/disk" && nbdcopy "$(uri v)" "$vm/after" || return 1
  cmp "$vm/before" "$vm/after" || return 1
  guest again -- && guest_said clean same || return 1
  ctl pool status --json | grep -q "\"unix\": \"$vm/disk\"" || { echo "the state does not name the socket"; return 1; }
  stop && [ ! -e "$vm/disk" ] || { echo "the socket is left"; return 1; }
}

# The server is killed under load, twice, and stopped once. Requests in flight are in memory that QEMU keeps: the guest only waits.
test_vhost_restarts() {
  need_vm || return
  # With the limit some requests are in flight at any time.
  vm_fresh && ctl volume set v --iops 500 || return 1
  guest load SECONDS_OF_LOAD=12 -- & local running=$!
  for _ in $(seq 200); do grep -q loading "$vm/said" 2>/dev/null && break; sleep 0.1; done
  refused "client" ctl volume delete v --yes || return 1
  local signal
  for signal in KILL KILL TERM; do
    sleep 1.5
    [ "$(status connections)" = 1 ] || { echo "the guest is not connected"; return 1; }
    stop -"$signal" && start --vhost-user "v=$vm/disk" || return 1
  done
  wait "$running" && guest_said verified || return 1
}
