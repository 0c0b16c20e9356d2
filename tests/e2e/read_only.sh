# Pools that are served read-only: nothing is written to any member, and any number of them may be missing.

sums() { sha256sum "${members[@]}"; }

# Serves read-only for a function, and checks that no byte of a member has changed.
read_only() {
  local before after code
  before=$(sums)
  start --read-only || { echo "not served"; return 1; }
  "$@"; code=$?
  stop
  after=$(sums)
  [ "$before" = "$after" ] || { echo "a member was written to"; return 1; }
  return "$code"
}

refuses_changes() {
  local command
  for command in "volume create w 10M" "volume delete v --yes" "volume resize v 300M" "member offline 1" \
    "member replace 1" "member remove 1" "scrub" "policy --discard false"; do
    ctl $command >"$dir/refused" 2>&1 && { echo "$command was carried out"; return 1; }
    grep -q 'served read-only' "$dir/refused" || { echo "$command: $(cat "$dir/refused")"; return 1; }
  done
  truncate -s 256M "$dir/m8"
  ctl member add "$dir/m8" >"$dir/refused" 2>&1 && { echo "a member was added"; return 1; }
  rm "$dir/m8"
}

reads_all_and_refuses() {
  nbdinfo --json "$(uri)" | grep -q '"is_read_only": true' || { echo "the export is not read-only"; return 1; }
  nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  ! nbdcopy "$dir/in" "$(uri)" 2>/dev/null || { echo "it was written"; return 1; }
  ctl pool status --json | grep -q '"access": "read-only"' || { ctl pool status; return 1; }
  ctl pool status | grep -q 'nothing is written' && refuses_changes
}

test_read_only_after_a_crash_and_without_a_member() {
  need nbdcopy nbdinfo || return
  fresh 256M 200M || return 1
  head -c 200M /dev/urandom >"$dir/in"
  nbdcopy --flush "$dir/in" "$(uri)" && stop -KILL || return 1
  read_only reads_all_and_refuses || return 1
  mv "$dir/m2" "$dir/away"
  members=("$dir/m0" "$dir/m1" "$dir/m3" "$dir/m4")
  read_only reads_all_and_refuses || return 1
  # Served for writing afterwards, everything is there.
  mv "$dir/away" "$dir/m2"
  members=("$dir/m0" "$dir/m1" "$dir/m2" "$dir/m3" "$dir/m4")
  start && nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back"
}

# Every block is right or cannot be read.
rescues_some() {
  health failed && ctl pool status --json | grep -q '"access": "last-resort"' || { ctl pool status; return 1; }
  ctl pool status | grep -q 'copy what can be read' || { ctl pool status; return 1; }
  ctl events | grep -q 'last resort' || { ctl events; return 1; }
  /usr/bin/python3 - "$(uri)" "$dir/in" <<'PY'
import nbd, sys
handle = nbd.NBD()
handle.connect_uri(sys.argv[1])
block, wrong, lost, right = 65536, 0, 0, 0
with open(sys.argv[2], "rb") as expected:
    for at in range(0, handle.get_size(), block):
        want = expected.read(block)
        try:
            got = handle.pread(block, at)
        except nbd.Error as error:
            assert error.errno == "EIO", error
            lost += 1
            continue
        right, wrong = right + (got == want), wrong + (got != want)
print(f"{right} right, {lost} lost, {wrong} wrong")
sys.exit(not (wrong == 0 and right > 100 and lost > 100))
PY
}

test_read_only_as_a_last_resort() {
  need nbdcopy || return
  /usr/bin/python3 -c 'import nbd' 2>/dev/null || { echo "no python3-libnbd"; return 77; }
  fresh 256M 200M || return 1
  head -c 200M /dev/urandom >"$dir/in"
  nbdcopy --flush "$dir/in" "$(uri)" && stop || return 1
  mv "$dir/m1" "$dir/away1"; mv "$dir/m3" "$dir/away3"
  members=("$dir/m0" "$dir/m2" "$dir/m4")
  "$SINEW" serve "${members[@]}" --unix "$dir/nbd" --control "$dir/ctl" 2>"$dir/refused" && { echo "served"; return 1; }
  grep -q -- '--read-only' "$dir/refused" || { cat "$dir/refused"; return 1; }
  read_only rescues_some || return 1
  # With the members back nothing is lost.
  mv "$dir/away1" "$dir/m1"; mv "$dir/away3" "$dir/m3"
  members=("$dir/m0" "$dir/m1" "$dir/m2" "$dir/m3" "$dir/m4")
  start && health healthy && nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back"
}

# Wipes the pages of the tables, which begin with SNPG, on all members.
wipe_tables() {
  /usr/bin/python3 - "$@" <<'PY'
import sys
page, wiped = 16384, 0
for path in sys.argv[1:]:
    with open(path, "r+b") as member:
        data = member.read()
        at = data.find(b"SNPG")
        while at >= 0:
            if at % 4096 == 0:
                member.seek(at)
                member.write(bytes(page))
                wiped += 1
            at = data.find(b"SNPG", at + 4)
print(f"{wiped} pages wiped")
sys.exit(wiped == 0)
PY
}

# Nothing may be read as if nothing had been written.
reads_no_zeros() {
  ctl pool status | grep -q 'tables of the pool are lost' || { ctl pool status; return 1; }
  nbdcopy "$(uri)" "$dir/back" 2>/dev/null && { echo "read although the tables are lost"; return 1; }
  return 0
}

test_lost_tables_are_noticed() {
  need nbdcopy || return
  fresh 256M 200M || return 1
  head -c 200M /dev/urandom >"$dir/in"
  nbdcopy --flush "$dir/in" "$(uri)" && stop || return 1
  # One member without tables is no loss.
  wipe_tables "$dir/m1" && start && nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back" && stop || return 1
  wipe_tables "${members[@]}" || return 1
  "$SINEW" serve "${members[@]}" --unix "$dir/nbd" --control "$dir/ctl" 2>"$dir/refused" && { echo "served"; return 1; }
  grep -q 'table pages.*--read-only' "$dir/refused" || { cat "$dir/refused"; return 1; }
  read_only reads_no_zeros
}

test_read_only_array() {
  need nbdcopy || return
  [ -n "$server" ] && stop -KILL
  rm -f "$dir"/m[0-9]*
  members=("$dir/m0" "$dir/m1" "$dir/m2" "$dir/m3")
  "$SINEW" array create t "${members[@]}" --level 5 --size 128M >/dev/null && start || return 1
  local bytes
  bytes=$(status capacity_bytes)
  head -c "$bytes" /dev/urandom >"$dir/in"
  nbdcopy --flush "$dir/in" "$(uri t)" && stop -KILL || return 1
  array_is_read() { nbdcopy "$(uri t)" "$dir/back" && cmp "$dir/in" "$dir/back"; }
  read_only array_is_read || return 1
  members=("$dir/m0" "$dir/m2" "$dir/m3")
  read_only array_is_read || return 1
  members=("$dir/m0" "$dir/m2")
  "$SINEW" serve "${members[@]}" --read-only --unix "$dir/nbd" --control "$dir/ctl" 2>"$dir/refused" && return 1
  grep -q 'cannot be opened' "$dir/refused"
}
