# `sinew replay`: workloads on a served pool, on a pool opened in process, and on other servers; its NBD client against real servers.

replay() { timeout 120 "$SINEW" replay "$@"; }
# A small trace, always the same: 2000 requests of 512 B to 64 KiB on two devices, reads and writes of the same blocks.
small_trace() {
  awk 'BEGIN { srand(7); print "ts_us,dev,op,offset_bytes,size_bytes"
    for (i = 0; i < 2000; i++)
      printf "%d,%d,%s,%d,%d\n", i * 500, i % 2, rand() < 0.4 ? "R" : "W", int(rand() * 20000) * 512, (1 + int(rand() * 128)) * 512 }'
}
# Whether a report in JSON meets this condition.
says() { grep -q -- "$1" "$dir/json" || { echo "the report does not say $1:"; head -c 3000 "$dir/json"; return 1; }; }
verified() { says '"wrong": 0' && says '"complete": true' && says "\"ended\": \"${1:-done}\""; }

test_replay_served_and_in_process() {
  fresh 256M 100M --volume w:50M || return 1
  small_trace >"$dir/trace.csv"
  # Over the socket, by the members' directory and by a volume's name; then in this process.
  replay "$dir/m0" "$dir/trace.csv" --verify --json --control "$dir/ctl" >"$dir/json" && verified && says 'nbd+unix:///w?socket' || return 1
  replay v "$dir/trace.csv" --closed 32 --verify --control "$dir/ctl" || return 1
  replay v exchange-like --mix "$dir/trace.csv" --volume w --speed 30 --duration 2 --verify --json --control "$dir/ctl" >"$dir/json" && verified || return 1
  replay v proxy-like --closed 8 --limit 2000 --connections 3 --verify --compressible 0.5 --control "$dir/ctl" || return 1
  stop
  mkdir -p "$dir/pool" && mv "${members[@]}" "$dir/pool/" || return 1
  replay "$dir/pool" "$dir/trace.csv" --verify --json >"$dir/json" && verified || return 1
  refused "no volume x" replay "$dir/pool" "$dir/trace.csv" --volume x
}

test_replay_real_trace() {
  local traces=${SINEW_TRACES:-}
  [ -r "$traces/msr-hm_0-sample.csv" ] || { echo "SINEW_TRACES does not name a directory of traces"; return 77; }
  fresh 256M 200M || return 1
  replay "$(uri)" "$traces/msr-hm_0-sample.csv" --fold --speed 100 --verify --json >"$dir/json" && verified || return 1
  replay "$(uri)" "$traces/cloudPhysicsIO.vscsi" --fold --closed 32 --limit 20000 --connections 2 --verify --json >"$dir/json" && verified || return 1
  refused "say --fold" replay "$(uri)" "$traces/msr-hm_0-sample.csv"
}

test_replay_kill9() {
  fresh 256M 200M || return 1
  replay "$(uri)" exchange-like --closed 16 --verify --json >"$dir/json" 2>"$dir/err" & local load=$!
  sleep 2; stop -KILL
  wait "$load" && { echo "a lost server is no success"; return 1; }
  cat "$dir/err"
  grep -q "the target was lost: the server closed the connection" "$dir/err" || return 1
  says '"ended": "lost: ' && says '"complete": false' && says '"wrong": 0' && says '"reason": "connection lost"' || return 1
  grep -q '"requests": [1-9][0-9][0-9]' "$dir/json"
}

test_replay_stalled_server() {
  fresh 256M 200M || return 1
  replay "$(uri)" exchange-like --closed 4 --patience 1 >"$dir/text" 2>"$dir/err" & local load=$!
  sleep 1; kill -STOP "$server"
  wait "$load"; local code=$?
  kill -CONT "$server"
  cat "$dir/err"; [ $code = 1 ] && grep -q "did not answer within 1 s" "$dir/err" && grep -q "^write" "$dir/text"
}

test_replay_interrupted() {
  fresh 256M 200M || return 1
  "$SINEW" replay "$(uri)" exchange-like --speed 10 --verify --json >"$dir/json" 2>/dev/null & local load=$!
  sleep 1.5; kill -INT "$load"; wait "$load" || return 1
  verified stopped
}

test_replay_finds_lost_writes() {
  need nbdcopy || return
  fresh 256M 50M || return 1
  # Data written meanwhile by another client differs from that of the replay.
  "$SINEW" replay "$(uri)" esap-random-like --speed 2000 --verify --json >"$dir/json" 2>/dev/null & local load=$!
  sleep 1.5; kill -STOP "$load"
  head -c 50M /dev/zero >"$dir/zeros"; nbdcopy "$dir/zeros" "$(uri)" || return 1
  kill -INT "$load"; kill -CONT "$load"
  wait "$load" && { echo "nothing was found"; return 1; }
  says 'are not those of write'
}

test_replay_nbdkit() {
  need nbdkit || return
  small_trace >"$dir/trace.csv"
  rm -f "$dir/other"
  nbdkit -f -U "$dir/other" memory 100M & local other=$!
  until_socket "$dir/other" "$other"
  local at="nbd+unix:///?socket=$dir/other" code=0
  replay "$at" "$dir/trace.csv" --verify --connections 2 --json >"$dir/json" && verified &&
    replay "$at" ycsb-a-like --closed 16 --limit 500 --verify || code=1
  kill "$other"; wait "$other"; rm -f "$dir/other"
  [ $code = 0 ] || return 1
  # A server with errors and delays, one that supports only simple replies, one that is read-only.
  nbdkit -f -U "$dir/other" --filter=error --filter=delay memory 100M error-rate=5% error-pwrite=ENOSPC rdelay=1ms & other=$!
  until_socket "$dir/other" "$other"
  replay "$at" "$dir/trace.csv" --verify --json >"$dir/json" && code=1
  kill "$other"; wait "$other"; rm -f "$dir/other"
  says '"reason": "no space"' && says '"reason": "I/O error"' && says '"wrong": 0' && [ $code = 0 ] || return 1
  nbdkit -f -U "$dir/other" --no-sr -r memory 100M & other=$!
  until_socket "$dir/other" "$other"
  replay "$at" "$dir/trace.csv" --json >"$dir/json" && code=1
  kill "$other"; wait "$other"
  says '"reason": "not permitted"' && [ $code = 0 ]
}

# A server that serves requests in parts of 512 bytes, those of others in between: reads find mixtures, which NBD allows.
test_replay_mixed_requests() {
  need nbdkit || return
  awk 'BEGIN { srand(9); print "ts_us,dev,op,offset_bytes,size_bytes"
    for (i = 0; i < 400; i++) printf "%d,0,%s,%d,8192\n", i * 100, rand() < 0.5 ? "R" : "W", int(rand() * 8) * 4096 }' >"$dir/trace.csv"
  rm -f "$dir/other"
  nbdkit -f -U "$dir/other" --filter=blocksize --filter=delay memory 100M maxdata=512 wdelay=1ms rdelay=1ms & local other=$! code=0
  until_socket "$dir/other" "$other"
  replay "nbd+unix:///?socket=$dir/other" "$dir/trace.csv" --closed 16 --verify --json >"$dir/json" && verified || code=1
  kill "$other"; wait "$other"; rm -f "$dir/other"
  [ $code = 0 ]
}

test_replay_qemu_nbd() {
  need qemu-nbd || return
  small_trace >"$dir/trace.csv"; truncate -s 100M "$dir/disk.raw"; rm -f "$dir/other"
  local port=$((20000 + RANDOM % 10000)) other code=0
  qemu-nbd -f raw -x disk -t -e 4 -k "$dir/other" "$dir/disk.raw" & other=$!
  until_socket "$dir/other" "$other"
  replay "nbd+unix:///disk?socket=$dir/other" "$dir/trace.csv" --verify --connections 4 --json >"$dir/json" && verified || code=1
  refused 'no export "none"' replay "nbd+unix:///none?socket=$dir/other" "$dir/trace.csv" || code=1
  kill "$other"; wait "$other"
  [ $code = 0 ] || return 1
  qemu-nbd -f raw -x disk -t -b 127.0.0.1 -p "$port" "$dir/disk.raw" & other=$!
  for _ in $(seq 100); do (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break; sleep 0.05; done
  replay "nbd://127.0.0.1:$port/disk" "$dir/trace.csv" --closed 16 --verify --json >"$dir/json" && verified || code=1
  kill "$other"; wait "$other"
  [ $code = 0 ]
}

test_replay_hostile_server() {
  need python3 || return
  local kind
  for kind in silent garbage half endless; do
    rm -f "$dir/other"
    python3 "$here/hostile_server.py" "$dir/other" "$kind" & local other=$!
    until_socket "$dir/other" "$other"
    refused "the server" replay "nbd+unix:///v?socket=$dir/other" exchange-like --closed 4 --patience 1 --duration 5 || { kill "$other"; return 1; }
    kill "$other"; wait "$other"
  done
  true
}
