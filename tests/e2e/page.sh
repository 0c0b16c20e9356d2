# The page of a pool in a headless browser. SCREENSHOTS names a directory for screenshots.

test_page() {
  need chromium chromedriver fio || return
  # Members in memory answer at once and have no latencies, so they are slow at times.
  faults=(--fault-member 1:spikes,period=2s,length=300ms,height=30ms)
  for member in 0 2 3 4; do faults+=(--fault-member "$member:spikes,period=100ms,length=50ms,height=1ms"); done
  fresh 256M 100M || { faults=(); return 1; }
  stop && mv "$dir/m4" "$dir/m4<u>" && members[4]="$dir/m4<u>" && start --http 127.0.0.1:0 || { faults=(); return 1; }
  faults=()
  fio --name=load --ioengine=nbd --uri="$(uri)" --rw=randrw --bs=4k --iodepth=8 --size=64M --time_based --runtime=600 \
    --rate_iops=400 >/dev/null 2>&1 &
  local load=$! code=0 address
  address=$(ctl pool status --json | sed -n 's/.*"http": "\(.*\)".*/\1/p')
  /usr/bin/python3 "$here/page.py" "http://$address/" "$dir/ctl" "$SINEW" "${SCREENSHOTS:-$dir}" || code=1
  kill "$load" && wait "$load"
  return $code
}
