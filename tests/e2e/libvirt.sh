# The disks of docs/howto/virtual-machine.md and docs/howto/vhost-user.md, as libvirt gives them to QEMU, without KVM.

# The example of a how-to that begins with a line: its lines, without their indentation, to the end of the disk.
example() {
  sed -n "/^    *$2/,/^    *<\/disk>/s/^    //p" "$here/../../docs/howto/$1"
}

test_libvirt() {
  need_vm && need virt-qemu-run || return
  vm=$dir/vm; rm -rf "$vm"; mkdir -p "$vm/libvirt/etc"
  fresh 64M 96M --shards 2 && ctl volume create vm1 96M || return 1
  stop
  start --vhost-user "vm1=$vm/disk" || return 1
  vm_prepare=yes "$here/../vm/run" "$vm" "$here/libvirt_job" -- || return 1
  # No daemon, no cgroups, no other user.
  printf '%s\n' "user = \"$(id -un)\"" "group = \"$(id -gn)\"" 'cgroup_controllers = []' 'namespaces = []' 'security_driver = "none"' \
    'remember_owner = 0' 'dynamic_ownership = 0' 'stdio_handler = "file"' >"$vm/libvirt/etc/qemu.conf"
  local kernel; kernel=$(ls -v /boot/vmlinuz-*cloud-* | head -n 1)
  {
    echo "<domain type='qemu'><name>vm1</name><memory unit='MiB'>768</memory><vcpu>2</vcpu>"
    example vhost-user.md "<memoryBacking>" | sed '/\.\.\./,$d'
    echo "<os><type arch='x86_64' machine='q35'>hvm</type><kernel>$kernel</kernel><initrd>$vm/initrd</initrd>"
    echo "<cmdline>console=ttyS0 rdinit=/init quiet panic=-1</cmdline></os><cpu mode='maximum'/><devices>"
    example virtual-machine.md "<disk type='network'" | sed "s|/run/sinew/nbd/tank.sock|$dir/nbd|; s|name='vol'|name='v'|"
    example vhost-user.md "<disk type='vhostuser'" | sed "s|/run/sinew/vm1.sock|$vm/disk|; s|dev='vda'|dev='vdb'|"
    echo "<serial type='file'><source path='$vm/console'/><target port='0'/></serial>"
    echo "<serial type='file'><source path='$vm/said'/><target port='1'/></serial></devices></domain>"
  } >"$vm/domain.xml"
  local command=(virt-qemu-run --root="$vm/libvirt" "$vm/domain.xml") of
  if [ "$(id -u)" = 0 ]; then
    # For root the driver looks for the user and the group of Debian's daemon, although others are configured. Where that package is
    # missing, it sees others by this name.
    for of in passwd group; do
      { cat /etc/$of && { getent $of libvirt-qemu || getent $of 0 | sed 's/^[^:]*/libvirt-qemu/'; }; } >"$vm/$of" || return 1
    done
    command=(unshare --mount sh -c 'mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group && exec "$@"'
      "$vm" "${command[@]}")
  fi
  timeout 300 "${command[@]}" >"$vm/qemu.log" 2>&1 & local machine=$!
  guest_says() {
    local line
    for line in "$@"; do
      for _ in $(seq 1200); do
        grep -qx "$line" "$vm/said" 2>/dev/null && continue 2
        kill -0 "$machine" 2>/dev/null || break
        sleep 0.1
      done
      echo "the guest did not say: $line"; cat "$vm/said" "$vm/qemu.log"; tail -n 12 "$vm/console"; return 1
    done
  }
  guest_says loading || return 1
  sleep 2
  stop -KILL && start --vhost-user "vm1=$vm/disk" || return 1
  guest_says "vda verified" "vdb verified" "vda 4096, discards" "vdb 512, discards" || return 1
  # It waits for orders when its guest has shut down.
  kill "$machine"; wait "$machine"
  return 0
}
