# Foreign metadata, made by its own tools: it is named and left alone, and with --force nothing of it stays.

# Members whose size is no multiple of 4096: metadata at the end lies beyond the last whole block.
foreign_bytes=$(((128 << 20) + 1536))
foreign_create() { "$SINEW" pool create p "$@" "$dir/foreign/b" "$dir/foreign/c"; }
# Whether a device with this content is refused by name and unchanged, and whether wipefs finds nothing on it once a pool
# was made with --force, nor once that was destroyed: foreign_case FILE TEXT
foreign_case() {
  local file=$1 found=$2 before text
  [ -n "$(wipefs "$file")" ] || { echo "wipefs finds nothing on $file itself"; return 1; }
  before=$(sha256sum <"$file")
  text=$(foreign_create "$file" 2>&1) && { echo "$file: taken without --force"; return 1; }
  [[ "$text" == *"$file is not empty: it holds "*"$found"* ]] || { echo "$file: no '$found' in: $text"; return 1; }
  [ "$(sha256sum <"$file")" = "$before" ] || { echo "$file was changed"; return 1; }
  foreign_create "$file" --force >/dev/null || { echo "$file: not made with --force"; return 1; }
  [ -z "$(wipefs "$file")" ] || { echo "$file: left after create: $(wipefs "$file")"; return 1; }
  "$SINEW" pool destroy "$file" "$dir/foreign/b" "$dir/foreign/c" --yes >/dev/null || return 1
  [ -z "$(wipefs "$file")" ] || { echo "$file: left after destroy: $(wipefs "$file")"; return 1; }
  foreign_create "$file" >/dev/null || { echo "$file: not empty after destroy"; return 1; }
  "$SINEW" pool destroy "$file" "$dir/foreign/b" "$dir/foreign/c" --yes >/dev/null
  rm "$file"
}
# Makes a file, runs a tool on it, and tries it: foreign_made TEXT TOOL [ARGUMENTS]. The file comes last.
foreign_made() {
  local file=$dir/foreign/$2
  command -v "$2" >/dev/null || { echo "no $2"; foreign_missing+=" $2"; return 0; }
  truncate -s "$foreign_bytes" "$file"
  "${@:2}" "$file" >"$dir/foreign/tool" 2>&1 </dev/null || { cat "$dir/foreign/tool"; return 1; }
  foreign_case "$file" "$1"
}
foreign_begin() {
  rm -rf "$dir/foreign"; mkdir "$dir/foreign"
  truncate -s "$foreign_bytes" "$dir/foreign/b" "$dir/foreign/c"
  foreign_missing=
}
foreign_end() { rm -rf "$dir/foreign"; [ -z "$foreign_missing" ] || { echo "no$foreign_missing"; return 77; }; }
luks_format() { echo secret | cryptsetup luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$@" -; }
luks1_format() { echo secret | cryptsetup luksFormat --batch-mode --type luks1 --iter-time 1 "$@" -; }
mbr_table() { echo 'start=2048, type=83' | sfdisk "$@"; }
gpt_table() { printf 'label: gpt\nstart=2048, size=4096\n' | sfdisk "$@"; }

test_foreign_file_systems() {
  need wipefs || return
  foreign_begin
  foreign_made 'an ext4 file system "home" at byte 1080' mkfs.ext4 -q -L home &&
    foreign_made 'an ext2 file system at byte 1080' mkfs.ext2 -q &&
    foreign_bytes=$(((320 << 20) + 1536)) \
      foreign_made 'an XFS file system "data" at byte 0' mkfs.xfs -q -L data &&
    foreign_made 'a btrfs file system "pics" at byte 65600' mkfs.btrfs -q -L pics &&
    foreign_made 'an F2FS file system at bytes 1024 and 5120' mkfs.f2fs -q &&
    foreign_made 'a FAT file system "STICK" at byte' mkfs.vfat -n STICK &&
    foreign_made 'an exFAT file system at byte 3' mkfs.exfat &&
    foreign_made 'an NTFS file system at bytes 3 and' mkfs.ntfs -q -F -Q &&
    foreign_made 'a swap area "swp" at byte 4086' mkswap -L swp || return 1
  foreign_end
}
test_foreign_volumes() {
  need wipefs /usr/bin/python3 || return
  foreign_begin
  for tool in cryptsetup sfdisk; do command -v "$tool" >/dev/null || foreign_missing+=" $tool"; done
  [ -n "$foreign_missing" ] || {
    foreign_made 'a LUKS header at byte 0' luks1_format &&
      foreign_made 'a LUKS2 header "vault" at byte 0, a second LUKS2 header "vault" at byte 16384' luks_format --type luks2 --label vault &&
      foreign_made 'an MBR partition table at byte 510' mbr_table &&
      foreign_made "a GPT at byte 512, a backup GPT header at byte $((foreign_bytes - 512))" gpt_table || return 1
    # The backup header alone, as after `dd` over the beginning; the second header of LUKS2 likewise, at 4 MiB.
    truncate -s "$foreign_bytes" "$dir/foreign/backup" && gpt_table "$dir/foreign/backup" >/dev/null || return 1
    dd if=/dev/zero of="$dir/foreign/backup" bs=1M count=1 conv=notrunc status=none
    foreign_case "$dir/foreign/backup" "a backup GPT header at byte $((foreign_bytes - 512))" || return 1
    truncate -s "$foreign_bytes" "$dir/foreign/second"
    luks_format --type luks2 --luks2-metadata-size 4M --luks2-keyslots-size 16M "$dir/foreign/second" || return 1
    dd if=/dev/zero of="$dir/foreign/second" bs=1M count=1 conv=notrunc status=none
    foreign_case "$dir/foreign/second" "a second LUKS2 header at byte 4194304" || return 1
  }
  foreign_made 'a bcache device at byte 4120' make-bcache -B || return 1
  truncate -s "$foreign_bytes" "$dir/foreign/zfs" "$dir/foreign/ceph"
  /usr/bin/python3 "$here/foreign_zfs.py" "$dir/foreign/zfs" oldtank || return 1
  cp "$dir/foreign/zfs" "$dir/foreign/zfs-end"
  foreign_case "$dir/foreign/zfs" 'a ZFS label "oldtank" at bytes 16384, 278528, ' || return 1
  dd if=/dev/zero of="$dir/foreign/zfs-end" bs=1M count=1 conv=notrunc status=none
  foreign_case "$dir/foreign/zfs-end" 'a ZFS label "oldtank" at bytes 1' || return 1
  printf 'bluestore block device\n00000000-0000-0000-0000-000000000000\n' |
    dd of="$dir/foreign/ceph" conv=notrunc status=none
  foreign_case "$dir/foreign/ceph" 'a Ceph BlueStore device at byte 0' || return 1
  foreign_end
}
# The superblocks of md and the metadata that it handles for others, of arrays that mdadm made and stopped.
test_foreign_arrays() {
  need wipefs && need_uml || return
  foreign_begin
  local kind
  for kind in md-0.90 md-1.0 md-1.1 md-1.2 ddf imsm; do truncate -s "$foreign_bytes" "$dir/foreign/$kind".{0,1}; done
  TMPDIR=$base timeout 300 "$here/../uml/run" 1G "$dir/foreign" "$here/foreign_job"
  [ -s "$dir/foreign/result" ] || { echo "user-mode Linux did nothing"; tail -n 12 "$dir/foreign/console"; return 1; }
  foreign_case "$dir/foreign/md-0.90.0" 'an md superblock (metadata 0.90) at byte' &&
    foreign_case "$dir/foreign/md-1.0.0" 'an md superblock (metadata 1.0) "any:old" at byte' &&
    foreign_case "$dir/foreign/md-1.1.0" 'an md superblock (metadata 1.1) "any:old" at byte 0' &&
    foreign_case "$dir/foreign/md-1.2.0" 'an md superblock (metadata 1.2) "any:old" at byte 4096' &&
    foreign_case "$dir/foreign/ddf.0" 'SNIA RAID metadata (DDF) at byte' &&
    foreign_case "$dir/foreign/imsm.0" 'Intel RAID metadata (IMSM) at byte' || return 1
  foreign_end
}
# On a block device, and the users of one: an LVM volume's label, a mount, swap, another process.
test_foreign_holders() {
  need losetup mkfs.ext4 mkswap wipefs || return
  foreign_begin
  truncate -s 320M "$dir/foreign/disk"
  loop=$(losetup --find --show "$dir/foreign/disk") || { echo "no loop device"; return 77; }
  if command -v pvcreate >/dev/null; then
    pvcreate -y -ff --config 'devices { use_devicesfile=0 }' "$loop" >/dev/null 2>&1 || return 1
    refused "it holds an LVM2 physical volume at byte 536" foreign_create "$loop" || return 1
    foreign_create "$loop" --force >/dev/null && [ -z "$(wipefs "$loop")" ] || { wipefs "$loop"; return 1; }
    "$SINEW" pool destroy "$loop" "$dir/foreign/b" "$dir/foreign/c" --yes >/dev/null
    [ -z "$(wipefs "$loop")" ] || { wipefs "$loop"; return 1; }
  fi
  mkfs.ext4 -q "$loop" && mkdir -p "$dir/mnt" && mount "$loop" "$dir/mnt" || return 1
  refused "$loop is in use: it is mounted at $dir/mnt" foreign_create "$loop" --force || return 1
  umount "$dir/mnt"
  mkswap -q "$loop" && swapon "$loop" || return 1
  refused "$loop is in use: it is a swap area in use" foreign_create "$loop" --force; local code=$?
  swapoff "$loop"
  [ "$code" = 0 ] || return 1
  foreign_create "$loop" --force >/dev/null || return 1
  "$SINEW" serve "$loop" "$dir/foreign/b" "$dir/foreign/c" --unix "$dir/foreign/nbd" --control "$dir/foreign/ctl" >/dev/null 2>&1 &
  local other=$!
  until_socket "$dir/foreign/nbd" "$other"
  refused "$loop is in use: process $other (sinew) has it open" foreign_create "$loop" --force; code=$?
  kill "$other"; wait "$other"
  losetup -d "$loop"; loop=
  [ "$code" = 0 ] && foreign_end
}
