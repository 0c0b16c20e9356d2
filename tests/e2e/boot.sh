# The package on a whole machine: Debian with systemd, udev and devices as members, under QEMU.

# Boots it with these members and has it do STEP: [hidden=DISK] boot STEP MEMBER...
boot() {
  local step=$1 drives=() member; shift
  for member in root "$@"; do drives+=(-drive "file=$vm/$member.img,if=virtio,format=raw,cache=unsafe"); done
  timeout 400 "$here/../vm/run" "$vm" "$here/boot_job" ROOT=/dev/vda STEP="$step" HIDDEN="${hidden:-}" -- -smp 2 "${drives[@]}" >"$vm/qemu.log" 2>&1
  [ -s "$vm/said" ] || { echo "the machine did nothing"; cat "$vm/qemu.log"; tail -n 40 "$vm/console"; return 1; }
}

# Installs a module of the kernel of the machine: vm_module ROOT MODULE
vm_module() {
  local kernel; kernel=$(ls -v /boot/vmlinuz-*cloud-* | head -n 1); kernel=${kernel#/boot/vmlinuz-}
  local file; file=$(modprobe -S "$kernel" --show-depends "$2" | awk '$1 == "insmod" {print $2}') && [ -e "$file" ] || return 1
  mkdir -p "$1$(dirname "$file")" && cp "$file" "$1$file" && depmod -b "$1" "$kernel" 2>/dev/null
}

test_boot() {
  need_vm && need apt-cache dpkg-deb mke2fs cargo objdump modprobe nbd-client || return
  [ "$(id -u)" = 0 ] && [ -x /lib/systemd/systemd ] || { echo "not root, or no systemd"; return 77; }
  vm=$dir/boot; mkdir "$vm"
  cargo xtask package --binary "$SINEW" --out "$vm/package" || return 1
  local tree=$vm/tree
  "$here/../vm/machine" "$tree" libnbd-bin nbd-client e2fsprogs || return 1
  # The units of the how-to for the kernel's NBD client, as they are there.
  awk -v tree="$tree" '/^    # \/etc\// {file = tree $2; next} !/^    |^$/ {file = ""} /^    # / {file = ""} file {print substr($0, 5) >file}' \
    "$root/docs/howto/kernel-nbd.md" || return 1
  vm_module "$tree" nbd || return 1
  mkdir -p "$tree/srv" && cp "$vm"/package/sinew_*.deb "$tree/srv/sinew.deb" && cp "$here/boot_job" "$tree/srv/" || return 1
  chroot "$tree" /usr/bin/env -i PATH=/usr/sbin:/usr/bin dpkg --install /srv/sinew.deb >"$vm/installed" 2>&1 || { cat "$vm/installed"; return 1; }
  # The journal is kept from one boot to the next.
  mkdir -p "$tree/var/log/journal" "$tree/etc/systemd/system/multi-user.target.wants"
  printf '%s\n' '[Service]' 'Type=exec' 'ExecStart=/bin/bash /srv/boot_job' >"$tree/etc/systemd/system/job.service"
  ln -s ../job.service "$tree/etc/systemd/system/multi-user.target.wants/"
  mke2fs -q -t ext4 -d "$tree" "$vm/root.img" 600M || return 1
  for i in 1 2 3 4 5; do truncate -s 64M "$vm/$i.img"; done
  boot first 1 2 3 4 5 || return 1
  guest_said made "in /dev" started "same as written" "for a group" "kept as written" "units that failed: " || return 1
  boot enabled 5 4 3 2 1 || return 1
  guest_said active "stopped before" "same after a boot" "kept after a boot" "unmounted in time" "kept after a restart" restarted \
    "same after a kill" "kept after a kill" disabled "units that failed: " || return 1
  hidden=vdd boot found 1 2 3 4 5 || return 1
  guest_said active "same without a member" "at risk" whole "same with all members" "known to udev" purged stopped "units that failed: "
}
