# Pools as large as servers have, on sparse members.

# Bytes of memory that the server has used at most.
peak() { awk '/^VmHWM:/ { print $2 * 1024 }' "/proc/$server/status"; }

# 100 TiB are opened, written, and recovered with 2 GiB of memory. Nothing here says how long that takes.
test_large_pool() {
  /usr/bin/python3 -c 'import nbd' 2>/dev/null || { echo "no python3-libnbd"; return 77; }
  [ -n "$server" ] && stop -KILL
  rm -f "$dir"/m[0-9]* "$dir/model"
  members=(); for i in $(seq 0 7); do members+=("$dir/m$i"); done
  "$SINEW" pool create t "${members[@]}" --size 13T --shards 40 --volume v:60T >/dev/null && start --table-cache 256M || return 1
  /usr/bin/python3 "$here/load.py" "$(uri)" "$dir/model" 1 & local load=$!
  written && sleep 3
  local most=$(peak)
  stop -KILL
  wait "$load"
  start --table-cache 256M && /usr/bin/python3 "$here/load.py" "$(uri)" "$dir/model" verify || return 1
  [ "$(peak)" -gt "$most" ] && most=$(peak)
  stop && start --table-cache 256M && /usr/bin/python3 "$here/load.py" "$(uri)" "$dir/model" verify || return 1
  [ "$(peak)" -gt "$most" ] && most=$(peak)
  echo "at most $((most >> 20)) MiB"
  [ "$most" -lt $((2 << 30)) ]
}
