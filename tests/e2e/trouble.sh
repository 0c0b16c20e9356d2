# Crashes, lost and damaged members, full pools, hostile clients, wrong arguments.

test_trouble_kill9() {
  /usr/bin/python3 -c 'import nbd' 2>/dev/null || { echo "no python3-libnbd"; return 77; }
  fresh 256M 200M || return 1
  rm -f "$dir/model"
  local round
  for round in $(seq 10); do
    /usr/bin/python3 "$here/load.py" "$(uri)" "$dir/model" "$round" & local load=$!
    sleep "0.$((RANDOM % 6 + 3))"
    stop -KILL
    wait "$load"
    start || return 1
    /usr/bin/python3 "$here/load.py" "$(uri)" "$dir/model" verify || return 1
  done
}

test_trouble_member_lost_and_replaced() {
  need nbdcopy || return
  fresh 256M 200M || return 1
  head -c 200M /dev/urandom >"$dir/in"
  nbdcopy "$dir/in" "$(uri)" || return 1
  truncate -s 0 "$dir/m2"; rm "$dir/m2"
  nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  head -c 200M /dev/urandom >"$dir/in"
  nbdcopy "$dir/in" "$(uri)" && nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  for _ in $(seq 40); do health healthy || break; sleep 0.1; done
  health healthy && { echo "healthy without a member"; return 1; }
  truncate -s 256M "$dir/m2"
  ctl member replace 2 "$dir/m2" --wait || return 1
  health healthy || { ctl pool status; return 1; }
  # Redundancy is restored: another member may be lost.
  ctl member offline 0 && nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  ctl member online 0 --wait && health healthy
}

load() { /usr/bin/python3 "$here/load.py" "$(uri)" "$dir/model" "$@"; }

test_trouble_member_lost_under_load() {
  /usr/bin/python3 -c 'import nbd' 2>/dev/null || { echo "no python3-libnbd"; return 77; }
  fresh 256M 200M || return 1
  rm -f "$dir/model"
  load 1 5 & local load=$!
  sleep 1.5; truncate -s 0 "$dir/m1"; rm "$dir/m1"
  wait "$load" && load verify || return 1
  load 2 5 & load=$!
  sleep 1; truncate -s 256M "$dir/m9"
  ctl member replace 1 "$dir/m9" --wait || return 1
  wait "$load" && load verify && health healthy || { ctl pool status; return 1; }
  members=("$dir/m0" "$dir/m9" "$dir/m2" "$dir/m3" "$dir/m4")
  stop && start && load verify && health healthy || return 1
  ctl scrub start --wait && grep -q '"errors": 0' <<<"$(ctl scrub status --json)" || { ctl scrub status; return 1; }
}

test_trouble_offline_and_online_under_load() {
  /usr/bin/python3 -c 'import nbd' 2>/dev/null || { echo "no python3-libnbd"; return 77; }
  fresh 256M 200M || return 1
  rm -f "$dir/model"
  local round load
  for round in 1 2 3; do
    load $round 3 & load=$!
    sleep 0.7; ctl member offline $round || return 1
    sleep 0.7; ctl member online $round --wait || return 1
    wait "$load" && load verify || return 1
    for _ in $(seq 100); do health healthy && break; sleep 0.1; done
    health healthy || { ctl pool status; return 1; }
  done
  # The rebuild of the data that the member missed is right: any other member may be lost.
  ctl member offline 4 && load verify && ctl member online 4 --wait || return 1
  ctl scrub start --wait && grep -q '"errors": 0' <<<"$(ctl scrub status --json)" || { ctl scrub status; return 1; }
}

# A block device is open exclusively: it can be opened again only when every thread has let go of it.
test_trouble_block_device_returns() {
  need losetup fio || return
  fio --enghelp | grep -q nbd || { echo "fio without nbd"; return 77; }
  fresh 96M 100M --shards 2 || return 1
  truncate -s 128M "$dir/m7" "$dir/m8"
  loop=$(losetup --find --show "$dir/m7") || { echo "no loop device"; return 77; }
  ctl member offline 1 && ctl member replace 1 "$loop" --wait || return 1
  fio --name=w --ioengine=nbd --uri="$(uri)" --rw=randwrite --bs=4k --iodepth=8 --size=100M --time_based --runtime=20 \
    --output="$dir/fio" &
  local load=$! code=0
  for _ in 1 2 3 4 5; do
    ctl member offline 1 && ctl member online 1 --wait || { code=1; break; }
  done
  [ "$code" = 0 ] && { ctl member offline 1 && ctl member replace 1 "$dir/m8" --wait || code=1; }
  # No process has the old device open any more.
  [ "$code" = 0 ] && { "$SINEW" pool destroy "$loop" --yes || code=1; }
  kill "$load"; wait "$load"
  stop
  losetup -d "$loop"; loop=
  return $code
}
test_trouble_catch_up_after_restart() {
  need nbdcopy || return
  fresh 256M 200M || return 1
  head -c 100M /dev/urandom >"$dir/in"; truncate -s 200M "$dir/in"
  nbdcopy "$dir/in" "$(uri)" && stop || return 1
  mv "$dir/m1" "$dir/away"
  members=("$dir/m0" "$dir/m2" "$dir/m3" "$dir/m4"); start || return 1
  head -c 150M /dev/urandom >"$dir/in"; truncate -s 200M "$dir/in"
  nbdcopy "$dir/in" "$(uri)" && stop || return 1
  mv "$dir/away" "$dir/m1"
  members=("$dir/m0" "$dir/m1" "$dir/m2" "$dir/m3" "$dir/m4"); start || return 1
  for _ in $(seq 100); do health healthy && break; sleep 0.1; done
  health healthy || { ctl pool status; return 1; }
  ctl scrub start --wait && grep -q '"errors": 0' <<<"$(ctl scrub status --json)" || return 1
  nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back"
}

test_trouble_corruption() {
  need nbdcopy || return
  fresh 256M 200M || return 1
  head -c 200M /dev/urandom >"$dir/in"
  nbdcopy "$dir/in" "$(uri)" || return 1
  dd if=/dev/urandom of="$dir/m3" bs=1M seek=20 count=60 conv=notrunc status=none
  nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  ctl scrub start --wait || return 1
  local before after
  before=$(ctl scrub status --json | sed -n 's/.*"errors": \([0-9]*\).*/\1/p')
  ctl scrub start --wait || return 1
  after=$(ctl scrub status --json | sed -n 's/.*"errors": \([0-9]*\).*/\1/p')
  [ "$before" -gt 0 ] && [ "$after" = "$before" ] && grep -q '"unrepaired": 0' <<<"$(ctl scrub status --json)"
}

test_trouble_full_pool() {
  /usr/bin/python3 -c 'import nbd' 2>/dev/null || { echo "no python3-libnbd"; return 77; }
  fresh 64M 300M || return 1
  /usr/bin/python3 "$here/full.py" "$(uri)" fill || return 1
  stop -KILL; start || return 1
  /usr/bin/python3 "$here/full.py" "$(uri)" again || return 1
  # A full pool stops and starts too.
  stop && start && /usr/bin/python3 "$here/full.py" "$(uri)" full
}

test_trouble_hostile_client() {
  /usr/bin/python3 -c 'import nbd' 2>/dev/null || { echo "no python3-libnbd"; return 77; }
  fresh 256M 100M || return 1
  rm -f "$dir/model"
  /usr/bin/python3 "$here/load.py" "$(uri)" "$dir/model" 1 6 & local load=$!
  /usr/bin/python3 "$here/hostile.py" "$dir/nbd" || return 1
  wait "$load" || return 1
  kill -0 "$server" && /usr/bin/python3 "$here/load.py" "$(uri)" "$dir/model" verify
}

refused() { # refused PATTERN COMMAND...: fails with this in its message
  local pattern=$1 out; shift
  # A server that is not refused would serve for ever.
  [ "$1" = "$SINEW" ] && set -- timeout 60 "$@"
  out=$("$@" 2>&1) && { echo "not refused: $*"; return 1; }
  grep -qi -- "$pattern" <<<"$out" || { echo "$* said: $out"; return 1; }
}

test_trouble_wrong_arguments() {
  fresh 64M 32M || return 1
  refused "in use" "$SINEW" serve "${members[@]}" --unix "$dir/other" --control "$dir/otherctl" || return 1
  refused "no volume" ctl volume delete nothing --yes || return 1
  refused "already" ctl volume create v 1M || return 1
  refused "4096" ctl volume create odd 1000 || return 1
  refused "not a size" ctl volume create odd plenty || return 1
  refused "no member" ctl member offline 77 || return 1
  stop
  refused "reached by other machines" "$SINEW" serve "${members[@]}" --tcp 0.0.0.0:0 --control "$dir/ctl" || return 1
  refused "2 of its members" "$SINEW" serve "$dir/m0" "$dir/m1" "$dir/m2" --control "$dir/ctl" || return 1
  cp "$dir/m0" "$dir/m5"
  refused "copies of the same member" "$SINEW" serve "${members[@]}" "$dir/m5" --control "$dir/ctl" || return 1
  refused "already a member" "$SINEW" pool create u "${members[@]}" || return 1
  head -c 8M /dev/urandom >"$dir/m6"
  refused "no pool found" "$SINEW" serve "$dir/m6" --control "$dir/ctl" || return 1
  refused "not empty" "$SINEW" pool create u "$dir/m6" "$dir/m7" "$dir/m8" --size 64M || return 1
  refused "yes" "$SINEW" pool destroy "${members[@]}" || return 1
  "$SINEW" pool destroy --yes "${members[@]}" && refused "no pool found" "$SINEW" serve "${members[@]}" --control "$dir/ctl"
}

# Waits for an event whose text has this.
event() {
  for _ in $(seq "${2:-50}"); do [[ "$(ctl events)" == *"$1"* ]] && return 0; sleep 0.2; done
  echo "no event: $1"; ctl events; return 1
}

test_trouble_events_of_space() {
  need nbdcopy || return
  fresh 64M 230M || return 1
  local capacity step; capacity=$(status capacity_bytes)
  for step in 70 82 92; do
    head -c $((capacity * step / 100)) /dev/urandom >"$dir/in"
    nbdcopy --flush "$dir/in" "$(uri)" || return 1
    [ "$step" = 70 ] || event "more than $((step - 2)) %" || return 1
    [ "$step" != 70 ] || { sleep 1.5; [[ "$(ctl events)" != *"more than"* ]] || return 1; }
  done
}

test_trouble_events_of_members() {
  need nbdcopy fio || return
  fio --enghelp | grep -q nbd || { echo "fio without nbd"; return 77; }
  fresh 128M 100M || return 1
  stop; faults=(--fault-member 1:spikes,period=1h,length=1h,height=20ms --fault-member 3:hang,after=42s,length=30s)
  start; local code=$?; faults=()
  [ "$code" = 0 ] && ctl latency --io-timeout 2s || return 1
  fio --name=l --ioengine=nbd --uri="$(uri)" --rw=randrw --bs=4k --iodepth=4 --size=50M --rate_iops=200 --time_based --runtime=50 >/dev/null || return 1
  event "member 1 ($dir/m1) has been slower than its peers for long" && event "member 3 ($dir/m3) does not answer"
}

test_trouble_event_of_a_missing_member() {
  fresh 64M 30M || return 1
  stop; members=("$dir"/m{0,1,3,4})
  start && event "the pool is open without member 2" && event "member 2 ($dir/m2) is missing" && ! health healthy || return 1
  stop; members=("$dir"/m{0..4})
  start && event "member 2 ($dir/m2) is back" || return 1
  for _ in $(seq 50); do health healthy && return 0; sleep 0.2; done
  ctl pool status; return 1
}

test_trouble_event_of_a_missing_member_of_an_array() {
  fresh_array 4 24M 5 || return 1
  stop; members=("$dir"/m{0,2,3})
  start && event "the pool is open without member 1" && event "member 1 ($dir/m1) is missing" || return 1
  [ "$(ctl events --json | grep -c '"event":"member-missing"')" = 1 ] || { ctl events; return 1; }
  grep -q "WARN.*member 1 ($dir/m1) is missing" "$dir/log"
}
