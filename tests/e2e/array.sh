# Static arrays: every level under real clients, members lost and replaced, spares, kill -9 with a journal and without.

# Makes and serves a new array; its volume is v: fresh_array MEMBERS MEMBER_SIZE LEVEL [create options]
fresh_array() {
  [ -n "$server" ] && stop -KILL
  rm -f "$dir"/m[0-9]*
  members=(); for i in $(seq 0 $(($1 - 1))); do members+=("$dir/m$i"); done
  "$SINEW" array create v "${members[@]}" --size "$2" --level "$3" "${@:4}" >/dev/null && start
}
array_bytes() { nbdinfo --size "$(uri)"; }
# Fills the array and keeps the content for comparison.
fill_array() { head -c "$(array_bytes)" /dev/urandom >"$dir/in" && nbdcopy "$dir/in" "$(uri)"; }
same_array() { nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back"; }
# Removes the file of a member; the server must detect that. The file is not truncated: without checksums its zeros would pass for data.
lose() {
  rm "$dir/m$1"
  for _ in $(seq 100); do health healthy || return 0; sleep 0.1; done
  echo "healthy without a member"; return 1
}
until_healthy() {
  for _ in $(seq 200); do health healthy && return 0; sleep 0.1; done
  ctl array status; return 1
}
clean_scrub() {
  ctl scrub start --wait && grep -q '"errors": 0' <<<"$(ctl scrub status --json)" || { ctl scrub status; return 1; }
}

test_array_levels() {
  need nbdcopy nbdinfo || return
  local level
  for level in 0 1 10 5 6 50 60; do
    echo "level $level"
    fresh_array 8 24M "$level" || return 1
    fill_array && same_array && health healthy || return 1
    stop && start && same_array || return 1
    [ "$level" = 0 ] || clean_scrub || return 1
  done
}

test_array_fio_verify() {
  need fio || return
  fio --enghelp | grep -q nbd || { echo "fio without nbd"; return 77; }
  fresh_array 5 64M 5 --chunk 16K || return 1
  fio --name=w --ioengine=nbd --uri="$(uri)" --rw=randwrite --bsrange=4k-128k --blockalign=4k --size=100M \
    --io_size=60M --iodepth=16 --verify=crc32c --verify_fatal=1 --do_verify=1 --minimal || return 1
  clean_scrub
}

test_array_member_lost_and_replaced() {
  need nbdcopy nbdinfo || return
  local level
  for level in 10 5 60; do
    echo "level $level"
    fresh_array 8 16M "$level" || return 1
    fill_array || return 1
    lose 2 || return 1
    same_array && fill_array && same_array || return 1
    truncate -s 16M "$dir/m9"
    ctl member replace 2 "$dir/m9" --wait && until_healthy || return 1
    # Redundancy is restored: another member may be lost.
    ctl member offline 3 && same_array && ctl member online 3 --wait || return 1
    until_healthy && clean_scrub || return 1
  done
}

test_array_spare_takes_over() {
  need nbdcopy nbdinfo || return
  fresh_array 6 32M 5 --spares 1 || return 1
  fill_array || return 1
  rm "$dir/m1"; sleep 1.5
  fill_array && until_healthy && same_array && clean_scrub || return 1
  # The spare keeps the place after a restart, and there is no spare until a new one is added.
  members=("$dir/m0" "$dir/m2" "$dir/m3" "$dir/m4" "$dir/m5")
  stop && start && until_healthy && same_array || return 1
  lose 3 && fill_array && same_array || return 1
  truncate -s 32M "$dir/m8" "$dir/m9"
  ctl member replace 5 "$dir/m8" && until_healthy && same_array || return 1
  ctl member replace 5 "$dir/m9" && grep -q "5  spare" <<<"$(ctl member list)" || { ctl member list; return 1; }
}

test_array_raid0_without_a_member() {
  need nbdcopy nbdinfo || return
  fresh_array 3 32M 0 || return 1
  fill_array && stop || return 1
  mv "$dir/m1" "$dir/away"
  members=("$dir/m0" "$dir/m2")
  refused "not available" "$SINEW" serve "${members[@]}" --unix "$dir/nbd" --control "$dir/ctl" || return 1
  mv "$dir/away" "$dir/m1"
  members=("$dir/m0" "$dir/m1" "$dir/m2")
  start && same_array
}

# Rounds of load, each ended by kill -9: kill_array LEVEL [create options]
kill_array() {
  /usr/bin/python3 -c 'import nbd' 2>/dev/null || { echo "no python3-libnbd"; return 77; }
  fresh_array 5 48M "$@" || return 1
  rm -f "$dir/model"
  local round
  for round in 1 2 3 4; do
    load "$round" & local load=$!
    sleep "0.$((RANDOM % 6 + 3))"
    stop -KILL
    wait "$load"
    start && load verify || return 1
  done
  until_healthy && clean_scrub
}

test_array_kill9() { kill_array 5; }
test_array_kill9_raid6() { kill_array 6 --chunk 4K --shards 2; }
test_array_kill9_without_journal() { kill_array 5 --no-journal; }
test_array_kill9_raid10() { kill_array 10; }

test_array_kill9_without_a_member() {
  /usr/bin/python3 -c 'import nbd' 2>/dev/null || { echo "no python3-libnbd"; return 77; }
  fresh_array 5 48M 5 || return 1
  rm -f "$dir/model"
  load 1 & local load=$!
  sleep 0.4; lose 1 || return 1; sleep 0.4; stop -KILL
  wait "$load"
  members=("$dir/m0" "$dir/m2" "$dir/m3" "$dir/m4")
  start && load verify || return 1
  truncate -s 48M "$dir/m9"
  ctl member replace 1 "$dir/m9" --wait && until_healthy && load verify && clean_scrub
}

test_array_wrong_arguments() {
  array() { "$SINEW" array create v "${@:2}" --size 32M --level "$1"; }
  rm -f "$dir"/m[0-9]*
  refused "at least\|needs\|members" array 6 "$dir/m0" "$dir/m1" || return 1
  refused "chunk" array 5 "$dir/m0" "$dir/m1" "$dir/m2" --chunk 5000 || return 1
  refused "groups\|equal" array 50 "$dir/m0" "$dir/m1" "$dir/m2" "$dir/m3" "$dir/m4" || return 1
  refused "spare" array 5 "$dir/m0" "$dir/m1" "$dir/m2" --spares 3 || return 1
  [ -e "$dir/m0" ] && { echo "a refused array left files"; return 1; }
  fresh_array 4 32M 5 || return 1
  refused "one volume" ctl volume create w 1M || return 1
  refused "one volume" ctl volume delete v --yes || return 1
  ctl member offline 2 || return 1
  refused "cannot do without" ctl member offline 1 || return 1
  truncate -s 8M "$dir/m9"
  refused "larger" ctl member replace 2 "$dir/m9" || return 1
  refused "has its place" ctl member replace 2 || return 1
  ctl member online 2 --wait && until_healthy
}

# Grows onto m4 and m5; killed during the growth, which must then continue without a command: grow_killed METHOD BYTES_BEFORE
grow_killed() {
  ctl throttle 20M && ctl array grow "$dir/m4" "$dir/m5" --method "$1" || return 1
  sleep 0.5; stop -KILL
  members+=("$dir/m4" "$dir/m5")
  start && nbdcopy "$(uri)" "$dir/back" && cmp -n "$2" "$dir/in" "$dir/back" || return 1
  for _ in $(seq 300); do
    grep -q '"growing": null' <<<"$(ctl array status --json)" && break
    sleep 0.1
  done
  [ "$(array_bytes)" -gt "$2" ] || { echo "still $(array_bytes) bytes"; ctl array status; return 1; }
  until_healthy && fill_array && same_array && clean_scrub
}

test_parity_array_grows() {
  need nbdcopy nbdinfo || return
  local level method before
  for way in "5 spread" "6 restripe" "6 spread"; do
    read -r level method <<<"$way"
    echo "level $level, method $method"
    fresh_array 4 48M "$level" --shards 1 || return 1
    fill_array && before=$(array_bytes) || return 1
    truncate -s 48M "$dir/m4" "$dir/m5"
    truncate -s 8M "$dir/m9"
    grep -q "another --method" <<<"$(ctl array grow "$dir/m4" --method fastscale 2>&1)" || { echo "a wrong method was taken"; return 1; }
    grep -q "larger one" <<<"$(ctl array grow "$dir/m9" 2>&1)" || { echo "a small device was taken"; return 1; }
    grow_killed "$method" "$before" || return 1
    # The grown array survives the loss of a member, old or new.
    ctl member offline 4 && same_array && ctl member online 4 --wait && until_healthy || return 1
    stop && start && same_array || return 1
  done
}

test_array_grows() {
  need nbdcopy nbdinfo || return
  local method before
  for method in fastscale slas; do
    echo "method $method"
    fresh_array 4 48M 10 || return 1
    fill_array && before=$(array_bytes) || return 1
    truncate -s 48M "$dir/m4" "$dir/m5"
    truncate -s 8M "$dir/m9"
    grep -q "sets of 2 members" <<<"$(ctl array grow "$dir/m4" 2>&1)" || { echo "half a set was taken"; return 1; }
    grep -q "larger one" <<<"$(ctl array grow "$dir/m4" "$dir/m9" 2>&1)" || { echo "a small device was taken"; return 1; }
    grow_killed "$method" "$before" || return 1
    stop && start && same_array || return 1
  done
}
