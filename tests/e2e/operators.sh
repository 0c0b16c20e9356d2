# What operators meet around the data: a full file system below the members, other users, terminals.

# Serves a pool of sparse files in a file system in memory that is smaller than they are.
test_operators_full_file_system() {
  need nbdcopy mount umount || return
  [ -n "$server" ] && stop -KILL
  mkdir -p "$dir/small" && mount -t tmpfs -o size=96M none "$dir/small" || { echo "no mounts"; return 77; }
  full_file_system; local code=$?
  [ -n "$server" ] && stop
  umount -l "$dir/small"
  return $code
}
until_health() { for _ in $(seq 200); do health "$1" && return 0; sleep 0.1; done; echo "not $1"; ctl pool status; return 1; }
full_file_system() {
  members=("$dir"/small/m{0..3})
  "$SINEW" pool create t "${members[@]}" --size 64M --volume v:96M >/dev/null && start || return 1
  head -c 16M /dev/urandom >"$dir/in" && nbdcopy --flush "$dir/in" "$(uri)" || return 1
  # A write waits, or is refused; the copy ends when there is room.
  head -c 90M /dev/urandom >"$dir/more" && { nbdcopy --flush "$dir/more" "$(uri)" >/dev/null 2>&1 & } && local load=$!
  until_health suspended || return 1
  active 4 || return 1
  ctl pool status --check >"$dir/check"; [ $? = 2 ] && grep -q "no physical space" "$dir/check" || { cat "$dir/check"; return 1; }
  ctl pool status | grep -q '^data safe yes$' || { ctl pool status; return 1; }
  for _ in $(seq 50); do ctl events --json | grep -q '"event":"pool-suspended"' && break; sleep 0.1; done
  ctl events --json | grep -q '"event":"pool-suspended".*"severity":"error"' || { ctl events; return 1; }
  grep -q 'ERROR writes wait or are refused: no physical space on member' "$dir/log" || return 1
  # A crash changes nothing of it, and what was acknowledged is read.
  stop -KILL; wait "$load"
  start || return 1
  mount -o remount,size=300M "$dir/small" && until_health healthy || return 1
  nbdcopy --flush "$dir/more" "$(uri)" && nbdcopy "$(uri)" "$dir/back" && cmp -n $((90 << 20)) "$dir/more" "$dir/back" || return 1
  ctl scrub --wait >/dev/null && health healthy || { ctl pool status; return 1; }
}

# A user to whom the control sockets are closed is not told that there is no pool.
test_operators_other_user() {
  need unshare setpriv mount || return
  [ "$(id -u)" = 0 ] || { echo "not root"; return 77; }
  local said
  said=$(env -u XDG_RUNTIME_DIR -u SINEW_CONTROL -u SINEW_POOL unshare --mount bash -c '
    mount -t tmpfs none /run && mkdir -m 0700 /run/sinew && cp "$1" /run/program || exit 77
    setpriv --reuid=65534 --regid=65534 --clear-groups env TMPDIR=/run /run/program pool status 2>&1; echo "exit $?"' _ "$SINEW")
  [ $? = 77 ] && { echo "no mounts"; return 77; }
  [[ "$said" == *"may not look for others in /run/sinew"*"exit 1" ]] || { echo "$said"; return 1; }
}

# On a terminal: the colour of health, and the live view, which ends with q.
test_operators_terminal() {
  need script || return
  fresh 64M 32M || return 1
  local shown
  terminal() { TERM=xterm script -qec "$*" /dev/null </dev/null; }
  shown=$(terminal "'$SINEW' pool status --control '$dir/ctl'")
  [[ "$shown" == *$'health    \e[1;32mhealthy\e[0m'* ]] || { echo "no colour: $shown"; return 1; }
  shown=$(NO_COLOR=1 terminal "'$SINEW' pool status --control '$dir/ctl'")
  [[ "$shown" == *"health    healthy"* ]] || { echo "$shown"; return 1; }
  ctl pool status | grep -q '^health    healthy$' || return 1
  (sleep 1; printf q) | TERM=xterm timeout 20 script -qec "stty rows 40 cols 120; '$SINEW' top --control '$dir/ctl'" /dev/null >"$dir/screen" ||
    { tail -c 2000 "$dir/screen"; return 1; }
  grep -q HEALTHY "$dir/screen" && grep -q active "$dir/screen" || { tail -c 2000 "$dir/screen"; return 1; }
}

# The first commands of a new operator: none at all, a wrong one, and a pool that is too small for the default volume.
test_operators_first_commands() {
  local said
  said=$("$SINEW" 2>&1) && { echo "no command, and no error"; return 1; }
  [[ "$said" == *"Pools:"*"State:"*"Upkeep and settings:"*"Measurement and tests:"* ]] || { echo "$said"; return 1; }
  said=$("$SINEW" pol 2>&1) && { echo "a wrong command, and no error"; return 1; }
  [[ "$said" == *"similar"*"'pool'"* ]] || { echo "$said"; return 1; }
  [ -n "$server" ] && stop
  "$SINEW" up "$dir/up" --size 64M >"$dir/up.log" 2>&1 & server=$!
  until_socket "$dir/up/nbd.sock" "$server"
  head -c 1M /dev/urandom >"$dir/first" && nbdcopy "$dir/first" "nbd+unix:///vol0?socket=$dir/up/nbd.sock" || { cat "$dir/up.log"; return 1; }
  stop -INT
  grep -q "stopped, everything is on the members" "$dir/up.log" || { cat "$dir/up.log"; return 1; }
}

# Stripes over all members of unequal sizes: the status says that their shares differ, and why nothing moves.
test_operators_uneven_shares() {
  need nbdcopy || return
  [ -n "$server" ] && stop -KILL
  rm -f "$dir"/m[0-9]*; members=("$dir"/m{0..3})
  truncate -s 64M "$dir"/m{0..2}; truncate -s 192M "$dir/m3"
  "$SINEW" pool create t "${members[@]}" --protection parity1 --data-columns 3 --volume v:64M >/dev/null && start || return 1
  head -c 60M /dev/urandom >"$dir/in" && nbdcopy --flush "$dir/in" "$(uri)" || return 1
  # It is looked at when the pool is opened.
  stop && start || return 1
  for _ in $(seq 100); do ctl pool status | grep -q '^shares    uneven by .* in stripes that have a chunk on each member' && break; sleep 0.1; done
  ctl pool status | grep -q '^shares    uneven by .* in stripes that have a chunk on each member' || { ctl pool status; return 1; }
  [ "$(status together)" -gt 0 ]
}

# A pool that was not stopped is another host's only once that takes it over.
test_operators_other_host() {
  fresh 64M 32M || return 1
  head -c 1M /dev/urandom >"$dir/in" && nbdcopy --flush "$dir/in" "$(uri)" || return 1
  stop -KILL
  elsewhere() { SINEW_HOST_ID=other "$@"; }
  elsewhere start && { echo "opened on two hosts"; return 1; }
  grep -q 'pool t is open on .*take-over' <(tail -n 3 "$dir/log" | tr '\n' ' ') || { tail -n 3 "$dir/log"; return 1; }
  elsewhere start --read-only && nbdcopy "$(uri)" "$dir/back" && cmp -n 1048576 "$dir/in" "$dir/back" || return 1
  stop
  elsewhere "$SINEW" pool take-over "${members[@]}" 2>/dev/null && { echo "taken over without a word"; return 1; }
  elsewhere "$SINEW" pool take-over "${members[@]}" --yes && elsewhere start || return 1
  nbdcopy "$(uri)" "$dir/back" && cmp -n 1048576 "$dir/in" "$dir/back" && stop -KILL || return 1
  start && { echo "opened on the former host"; return 1; }
  # A clean stop leaves it to any host.
  elsewhere start && stop && start && nbdcopy "$(uri)" "$dir/back" && cmp -n 1048576 "$dir/in" "$dir/back"
}

# A member that appears after the server has stopped waiting for it, and before the control socket is there.
test_operators_late_member() {
  [ -n "$server" ] && stop -KILL
  fresh 64M 32M || return 1
  stop && mkdir -p "$dir/places" && mv "$dir"/m[0-4] "$dir/places/" && mv "$dir/places/m3" "$dir/away" || return 1
  printf '%s\n' 'pool = "t"' "members = [\"$dir/places\"]" 'wait = "0s"' "control = \"$dir/ctl\"" '[nbd]' "unix = \"$dir/nbd\"" >"$dir/t.toml"
  rm -f "$dir/ready"; mkfifo "$dir/ready"
  /usr/bin/python3 "$here/late.py" "$dir/places/m0" "$dir/away" "$dir/places/m3" "$dir/ready" & local late=$!
  read -r <"$dir/ready"
  "$SINEW" serve --config "$dir/t.toml" >>"$dir/log" 2>&1 & server=$!
  wait "$late" || return 1
  until_health healthy && grep -q 'member 3 at .* came late and is back' "$dir/log" || { tail -n 5 "$dir/log"; return 1; }
  stop; mv "$dir"/places/m[0-4] "$dir/"
}
