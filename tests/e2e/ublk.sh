# Volumes as block devices of the kernel: Sinew runs in Linux under QEMU, whose kernel has the driver.

test_ublk() {
  need_vm && need xz || return
  local kernel; kernel=$(ls -v /boot/vmlinuz-*cloud-* | tail -n 1)
  modprobe -S "${kernel#/boot/vmlinuz-}" --show-depends ublk_drv >/dev/null 2>&1 || { echo "no ublk_drv for $kernel"; return 77; }
  "$SINEW" serve "$dir/none" --ublk v=x 2>"$dir/refused" && return 1
  grep -q "write VOLUME or VOLUME=NUMBER" "$dir/refused" || { cat "$dir/refused"; return 1; }
  [ -e /dev/ublk-control ] || {
    "$SINEW" serve "$dir/none" --ublk v 2>"$dir/refused" && return 1
    grep -q "modprobe ublk_drv" "$dir/refused" || { cat "$dir/refused"; return 1; }
  }
  vm=$dir/ublk; rm -rf "$vm"; mkdir "$vm"
  vm_kernel=$kernel vm_programs="$SINEW" vm_modules=ublk_drv timeout 500 "$here/../vm/run" "$vm" "$here/ublk_job" -- -smp 2 >"$vm/qemu.log" 2>&1
  [ -s "$vm/said" ] || { echo "the guest did nothing"; cat "$vm/qemu.log"; tail -n 12 "$vm/console"; return 1; }
  guest_said "size $((96 << 20))" "blocks 512 4096 write back" "queues 2" discards verified punched filled "connections 1" removed clean same \
    "numbered" "refused a number" "refused a second server" "two devices" "size told" "verified after kills" "kept in use" "warned of it" "wrong volume refused" "all removed" "refused to remove a served one" listed "removed a lost one"
}
