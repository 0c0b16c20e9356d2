# Metrics under Prometheus: two pools scraped over TCP, the board and the alerts of packaging/monitoring.

test_monitoring() {
  need promtool prometheus nbdcopy || return
  local monitoring=$root/packaging/monitoring
  (cd "$monitoring" && promtool check config prometheus.yml && promtool check rules alerts.yml && promtool test rules alerts.test.yml) || return 1

  # Members in memory answer at once and have no latencies, so one of each pool is slow at times.
  local options=(--metrics 127.0.0.1:0 --fault-member 0:spikes,period=100ms,length=50ms,height=1ms)
  fresh 256M 100M || return 1
  stop && start "${options[@]}" || return 1
  "$SINEW" pool create u "$dir"/b{0..2} --size 128M --volume w:64M >/dev/null || return 1
  "$SINEW" serve "$dir"/b{0..2} --unix "$dir/nbd2" --control "$dir/ctl2" "${options[@]}" >>"$dir/log" 2>&1 &
  local second=$! code=0
  until_socket "$dir/nbd2" "$second" && monitoring_of_two_pools "$monitoring" || code=1
  kill "$second" && wait "$second"
  return $code
}

# The address of the metrics of the pool with this control socket.
metrics_address() { "$SINEW" pool status --json --control "$1" | sed -n 's/.*"metrics": "\(.*\)".*/\1/p'; }

monitoring_of_two_pools() {
  head -c 8M /dev/urandom >"$dir/in" && truncate -s 64M "$dir/in"
  # The older text format, as the textfile collector takes it; promtool says what is against the conventions.
  ctl metrics --prometheus | promtool check metrics || return 1
  { ctl metrics --prometheus; "$SINEW" metrics --prometheus --control "$dir/ctl2"; } | sed '/^#/d; s/ [^ ]*$//' | sort >"$dir/series"
  [ -z "$(uniq -d "$dir/series")" ] || { echo "series of two pools collide:"; uniq -d "$dir/series" | head; return 1; }
  /usr/bin/python3 "$here/monitoring.py" "$1" "$dir" "$(metrics_address "$dir/ctl")" "$(metrics_address "$dir/ctl2")" \
    "$(uri)" "nbd+unix:///w?socket=$dir/nbd2"
}
