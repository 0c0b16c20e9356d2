# A mirror of two members, with checksums.

test_pair_loses_and_replaces_a_member() {
  need nbdcopy || return
  [ -n "$server" ] && stop -KILL
  rm -f "$dir"/m[0-9]*
  members=("$dir/m0" "$dir/m1")
  "$SINEW" pool create t "${members[@]}" --size 256M --protection mirror --volume v:100M >/dev/null && start || return 1
  "$SINEW" pool create u "$dir/m8" "$dir/m9" --size 64M 2>"$dir/refused" && return 1
  grep -q '2 with --protection mirror' "$dir/refused" || { cat "$dir/refused"; return 1; }
  head -c 100M /dev/urandom >"$dir/in"
  nbdcopy "$dir/in" "$(uri)" || return 1
  # Wrong data is repaired from the other.
  dd if=/dev/urandom of="$dir/m0" bs=1M seek=20 count=40 conv=notrunc status=none
  nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  ctl scrub --wait >/dev/null && health healthy || { ctl pool status; return 1; }
  # One serves and takes writes alone, also over a crash.
  ctl member offline 1 || return 1
  ctl member offline 0 2>/dev/null && { echo "the last member was taken offline"; return 1; }
  head -c 100M /dev/urandom >"$dir/in"
  nbdcopy "$dir/in" "$(uri)" && stop -KILL && start || return 1
  nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  ctl member online 1 --wait && health healthy || { ctl pool status; return 1; }
  truncate -s 256M "$dir/m7"
  ctl member offline 0 && ctl member replace 0 "$dir/m7" --wait || { ctl pool status; return 1; }
  health healthy && ctl member offline 1 && nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  ctl member online 1 --wait && health healthy || { ctl pool status; return 1; }
  # Served without one of them.
  stop && members=("$dir/m7") && start && nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back"
}
