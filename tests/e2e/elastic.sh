# Elastic arrays and mapped pools on zram, which has less physical space than addresses: full members, discards, forms, a crash.

zrams=()
# zram_members DISKSIZE LIMIT: four devices as the members.
zram_members() {
  [ -e /sys/class/zram-control/hot_add ] && [ "$(id -u)" = 0 ] || { echo "no zram, or not root"; return 77; }
  zrams=(); members=()
  local id
  for _ in 1 2 3 4; do
    id=$(cat /sys/class/zram-control/hot_add) || { echo "no zram device"; return 77; }
    zrams+=("$id"); members+=("/dev/zram$id")
    echo "$1" >"/sys/block/zram$id/disksize" && echo "$2" >"/sys/block/zram$id/mem_limit" || return 1
    for _ in $(seq 50); do [ -b "/dev/zram$id" ] && break; sleep 0.1; done
  done
}
zram_end() {
  [ -n "$server" ] && stop -KILL
  local id
  for id in "${zrams[@]}"; do echo 1 >"/sys/block/zram$id/reset"; echo "$id" >/sys/class/zram-control/hot_remove; done 2>/dev/null
  zrams=()
}
# Physical space in use on the first member, in bytes.
zram_used() { awk '{print $3}' "/sys/block/zram${zrams[0]}/mm_stat"; }
# until_used MEASURE CONDITION: waits until the bytes that MEASURE prints meet an arithmetic condition on `used`.
until_used() {
  local used
  for _ in $(seq 200); do used=$("$1"); (("$2")) && return 0; sleep 0.1; done
  echo "used $used, expected $2"; return 1
}
stripes() { ctl pool status --json | /usr/bin/python3 -c "import json,sys; print(json.load(sys.stdin)['stripes']['$1'])"; }
# The number of thin members, the source of their figures, and their space.
physical() {
  ctl pool status --json | /usr/bin/python3 -c "import json,sys; p=[m['physical'] for m in json.load(sys.stdin)['members']]; print(len(p), *sorted({x['source'] for x in p}), *sorted({x['total'] for x in p}))"
}
until_stripes() { for _ in $(seq 200); do [ "$(stripes "$1")" = "$2" ] && return 0; sleep 0.1; done; ctl array status; return 1; }

elastic_run() {
  "$SINEW" array create v "${members[@]}" --level 5 --elastic --assume-zeroed --chunk 4K --shards 1 && start || return 1
  # Random data beyond the physical space: refused, and no member is lost.
  local stored; stored=$(/usr/bin/python3 "$here/full.py" "$(uri)" store) || { echo "$stored"; return 1; }
  active 4 || return 1
  # The control looks once a second.
  for _ in $(seq 50); do health suspended && break; sleep 0.1; done
  health suspended || { ctl pool status; return 1; }
  ctl pool status --check >"$dir/check"; [ $? = 2 ] && grep -q "no physical space" "$dir/check" || { cat "$dir/check"; return 1; }
  # The server knows the limit of each device and what it uses of it.
  physical | grep -qx "4 zram 100663296" || { physical; return 1; }
  ctl pool status | grep -q "^physical .* of 96 MiB ([89][0-9] %) on member 3" || { ctl pool status; return 1; }
  ctl metrics | grep -q '^sinew_member_physical_bytes{pool="v",member="3",space="used"} ' || { ctl metrics; return 1; }
  # What was acknowledged is there after a crash while the members are full.
  /usr/bin/python3 "$here/full.py" "$(uri)" verify "$stored" && stop -KILL && start || return 1
  /usr/bin/python3 "$here/full.py" "$(uri)" verify "$stored" || { echo "after a crash, of $stored"; ctl pool status; return 1; }
  active 4 || return 1
  # Discards help at once.
  fio --name=t --ioengine=nbd "--uri=$(uri)" --rw=trim --bs=3M --iodepth=1 --size=375M >"$dir/fio" 2>&1 || { cat "$dir/fio"; return 1; }
  until_used zram_used "used < 10 << 20" && until_stripes parity 0 || return 1
  for _ in $(seq 200); do health healthy && break; sleep 0.1; done
  health healthy || { echo "suspended with free space"; ctl pool status; return 1; }
  head -c 100M /dev/urandom >"$dir/in" && nbdcopy "$dir/in" "$(uri)" || return 1
  until_used zram_used "used > 30 << 20" || return 1
  ctl array share 100 && until_stripes parity 0 && until_used zram_used "used > 45 << 20" || return 1
  # A crash, and back to parity: the data stays, the space of the copies is free.
  stop -KILL; start && ctl array share 0 && until_stripes mirrored 0 && until_used zram_used "used < 45 << 20" || return 1
  # A limit by hand, until it is lifted.
  ctl member physical 1 64M && physical | grep -qx "4 zram 67108864 100663296" || { physical; return 1; }
  ctl member physical 1 none && physical | grep -qx "4 zram 100663296" || { physical; return 1; }
  nbdcopy "$(uri)" "$dir/back" && cmp -n $((100 << 20)) "$dir/in" "$dir/back" || return 1
  stop
}

# A mapped pool takes more overwrites than its members have space for: parity and compaction make room.
mapped_run() {
  "$SINEW" pool create p "${members[@]}" --shards 1 --volume v:150M >/dev/null && start || return 1
  fio --name=w --ioengine=nbd "--uri=$(uri)" --rw=randwrite --bs=4k --iodepth=16 --size=150M --loops=3 --refill_buffers --verify=crc32c \
    --serialize_overlap=1 >"$dir/fio" 2>&1 || { cat "$dir/fio"; ctl pool status; return 1; }
  active 4 || return 1
  stop
}

# on_zram TEST: a test on four zram members of 96 MiB of memory each.
on_zram() {
  local code
  zram_members 256M 96M; code=$?
  [ $code = 0 ] && { "$1"; code=$?; }
  zram_end
  return $code
}

test_elastic_on_zram() {
  need fio nbdcopy && /usr/bin/python3 -c 'import nbd' 2>/dev/null || { echo "no python3-libnbd"; return 77; }
  on_zram elastic_run
}

test_mapped_on_zram() { need fio && on_zram mapped_run; }

# Bytes that the files of all members take.
files_used() { stat -c %b "${members[@]}" | awk '{sum += $1} END {print sum * 512}'; }
# Files with holes give back the space of copies and of discarded blocks.
test_elastic_on_files() {
  need fio nbdcopy || return
  [ -n "$server" ] && stop -KILL
  rm -f "$dir"/m[0-9]*
  members=(); for i in 0 1 2 3; do members+=("$dir/m$i"); done
  "$SINEW" array create v "${members[@]}" --size 96M --level 5 --elastic --chunk 4K --shards 1 >/dev/null && start || return 1
  head -c 60M /dev/urandom >"$dir/in" && nbdcopy --flush "$dir/in" "$(uri)" || return 1
  ctl array share 100 && until_stripes parity 0 && until_used files_used "used > 115 << 20" || return 1
  ctl array share 0 && until_stripes mirrored 0 && until_used files_used "used < 100 << 20" || return 1
  # What a discard has lost is found by a scrub: a chunk at the end of the area of copies.
  stop && printf lost | dd of="$dir/m0" bs=4096 seek=$((90 << 8)) conv=notrunc status=none && start || return 1
  ctl scrub --wait --json | grep -q '"untidy": 1' || { ctl scrub status; return 1; }
  nbdcopy "$(uri)" "$dir/back" && cmp -n $((60 << 20)) "$dir/in" "$dir/back" || return 1
  fio --name=t --ioengine=nbd "--uri=$(uri)" --rw=trim --bs=3M --iodepth=1 --size=60M >"$dir/fio" 2>&1 || { cat "$dir/fio"; return 1; }
  until_used files_used "used < 20 << 20" || return 1
  stop
}
