# Members with injected faults (docs/fault-members.md), under real clients.

# The sum of a counter of all members.
members_sum() {
  ctl pool status --json | /usr/bin/python3 -c "import json,sys; print(sum(m['$1'] for m in json.load(sys.stdin)['members']))"
}
# A field of one member, or of its first fault.
member_field() { ctl pool status --json | /usr/bin/python3 -c "import json,sys; print(json.load(sys.stdin)['members'][$1]$2)"; }
# A new pool with 150 MiB of random data, served again with faults: faulty FAULT...
faulty() {
  faults=()
  fresh 256M 200M || return 1
  head -c 150M /dev/urandom >"$dir/in"; truncate -s 200M "$dir/in"
  nbdcopy "$dir/in" "$(uri)" && stop || return 1
  local fault; for fault in "$@"; do faults+=(--fault-member "$fault"); done
  start; local code=$?
  faults=()
  return $code
}
reads_back() { nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back"; }

test_faults_corruption_is_repaired() {
  need nbdcopy || return
  faulty 2:corrupt-reads,rate=0.05,unit=sector,seed=3 || return 1
  reads_back || return 1
  local found
  found=$(members_sum checksum_errors)
  [ "$found" -gt 0 ] && [ "$(member_field 2 "['checksum_errors']")" = "$found" ] || { ctl pool status; return 1; }
  [ "$(member_field 2 "['repaired_blocks']")" -gt 0 ] && health healthy || { ctl pool status; return 1; }
  # Data that was written wrong is found too, by a read or by a scrub.
  faulty 1:corrupt-writes,rate=0.05 || return 1
  head -c 150M /dev/urandom >"$dir/in"; truncate -s 200M "$dir/in"
  nbdcopy "$dir/in" "$(uri)" && reads_back || return 1
  [ "$(member_field 1 "['faults'][0]['requests']")" -gt 0 ] && stop && start || return 1
  ctl scrub start --wait && ctl scrub start --wait && reads_back && health healthy || { ctl pool status; return 1; }
  grep -q '"unrepaired": 0' <<<"$(ctl scrub status --json)"
}

test_faults_write_error_takes_the_member_out() {
  need nbdcopy || return
  faulty 3:write-errors,after=200 || return 1
  head -c 150M /dev/urandom >"$dir/in"; truncate -s 200M "$dir/in"
  nbdcopy "$dir/in" "$(uri)" && reads_back || return 1
  [ "$(member_field 3 "['state']")" = failed ] && [ "$(member_field 3 "['faults'][0]['requests']")" -gt 0 ] || { ctl pool status; return 1; }
  health healthy && { echo "healthy without a member"; return 1; }
  # After it is opened again it has no faults.
  ctl member online 3 --wait && [ "$(member_field 3 "['faults']")" = "[]" ] && health healthy && reads_back
}

test_faults_read_errors_are_served_from_redundancy() {
  need nbdcopy || return
  # First few enough errors that the member stays, then more.
  faulty 4:read-errors,range=30M-31M || return 1
  reads_back || return 1
  local errors; errors=$(member_field 4 "['read_errors']")
  [ "$errors" -gt 0 ] && [ "$errors" -le 64 ] && [ "$(member_field 4 "['state']")" = active ] || { ctl pool status; return 1; }
  faulty 4:read-errors,rate=1 || return 1
  reads_back || return 1
  [ "$(member_field 4 "['state']")" = failed ] || { ctl pool status; return 1; }
}

test_faults_latency_of_a_drive() {
  need fio || return
  faulty 0:latency,model=consumer,aged=1,pages=32 1:spikes,period=100ms,length=20ms,height=5ms || return 1
  fio --name=l --ioengine=nbd --uri="$(uri)" --rw=randrw --bs=4k --iodepth=8 --size=100M --time_based --runtime=2 >/dev/null || return 1
  [ "$(member_field 0 "['faults'][0]['requests']")" -gt 100 ] && [ "$(member_field 1 "['faults'][0]['requests']")" -gt 0 ] || return 1
  [ "$(member_field 0 "['write_latency_us']['p50']")" -gt "$(member_field 2 "['write_latency_us']['p50']")" ] || { ctl pool status; return 1; }
}

test_faults_are_loud() {
  faulty 2:corrupt-reads,rate=0.5 || return 1
  grep -q "INJECTED FAULT: $dir/m2" "$dir/log" || return 1
  grep -q "^INJECTED FAULT  member 2: reads have a wrong bit" <<<"$(ctl pool status)" || return 1
  stop
  refused "no member 9" "$SINEW" serve "${members[@]}" --control "$dir/ctl" --fault-member 9:read-errors,rate=1 || return 1
  refused "no fault tired" "$SINEW" serve "${members[@]}" --control "$dir/ctl" --fault-member 1:tired || return 1
  refused "and the member has" "$SINEW" serve "${members[@]}" --control "$dir/ctl" --fault-member 1:read-errors,range=1T-2T
}

until_timed_out() {
  for _ in $(seq 100); do [ "$(member_field "$1" "['timed_out']")" = True ] && return 0; sleep 0.1; done
  echo "member $1 has not timed out"; return 1
}

# A member behind a file system that is stopped: it answers nothing, and its requests complete when it goes on.
test_hung_member_times_out() {
  need nbdcopy bindfs fusermount || return
  [ -n "$server" ] && stop -KILL
  local behind="$dir/behind" front="$dir/front" bind
  mkdir -p "$behind" "$front"; rm -f "$dir"/m[0-9]* "$behind"/*
  bindfs -f -o direct_io "$behind" "$front" & bind=$!
  for _ in $(seq 100); do mountpoint -q "$front" && break; sleep 0.05; done
  members=("$dir"/m{0..3} "$front/m4")
  "$SINEW" pool create t "${members[@]}" --size 256M --volume v:60M >/dev/null && start || return 1
  hung_member "$bind"; local code=$?
  kill -CONT "$bind"; stop; fusermount -u -z "$front"; kill "$bind"
  return $code
}
hung_member() {
  head -c 30M /dev/urandom >"$dir/in"; truncate -s 60M "$dir/in"
  nbdcopy --flush "$dir/in" "$(uri)" && ctl latency --io-timeout 3s || return 1
  head -c 30M /dev/urandom >"$dir/in"; truncate -s 60M "$dir/in"
  kill -STOP "$1"
  timeout 30 nbdcopy --flush "$dir/in" "$(uri)" || { echo "clients wait for the member"; ctl pool status; return 1; }
  until_timed_out 4 && ctl pool status | grep "^TIMED OUT member 4" && [ "$(member_field 4 "['state']")" = failed ] || { ctl pool status; return 1; }
  # Its requests are still pending.
  [[ "$(ctl member online 4 2>&1)" == *"still owes answers"* ]] || { echo "taken back too early"; return 1; }
  kill -CONT "$1"
  for _ in $(seq 50); do ctl member online 4 --wait 2>/dev/null && break; sleep 0.2; done
  health healthy && reads_back && ctl scrub start --wait && grep '"errors": 0' <<<"$(ctl scrub status --json)" || { ctl pool status; ctl scrub status --json; return 1; }
}

# An injected hang: the member times out; where the pool cannot do without it, it is waited for.
test_faults_hang() {
  need nbdcopy || return
  faulty 2:hang,after=1s,length=20s || return 1
  ctl latency --io-timeout 2s && sleep 1 || return 1
  timeout 15 nbdcopy --flush "$dir/in" "$(uri)" && reads_back || { ctl pool status; return 1; }
  until_timed_out 2 || { ctl pool status; return 1; }
  [[ "$(ctl latency --io-timeout 1s 2>&1)" == *"not before"* ]] || return 1
  ctl member online 2 --wait && health healthy || { ctl pool status; return 1; }
  faulty 2:hang,length=8s || return 1
  ctl member offline 1 && ctl latency --io-timeout 2s || return 1
  nbdcopy --flush "$dir/in" "$(uri)" && reads_back || { ctl pool status; return 1; }
  [ "$(member_field 2 "['state']")" = active ] && ctl member online 1 --wait && health healthy || { ctl pool status; return 1; }
}
