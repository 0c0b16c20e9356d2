# md's arrays: made, filled, assembled and checked by Linux md under user-mode Linux, and served by Sinew in between.

# Name, level, members, metadata, and further options of mdadm --create.
md_arrays() {
  cat <<'ARRAYS'
zero 0 3 1.2 --chunk=64
one 1 2 1.0
one12 1 3 1.2
ten 10 4 1.2 --chunk=64
ten-odd 10 3 1.0 --chunk=32
five-la 5 4 1.2 --chunk=64 --layout=left-asymmetric
five-ra 5 4 1.2 --chunk=16 --layout=right-asymmetric
five-ls 5 3 1.0 --chunk=64 --layout=left-symmetric
five-rs 5 5 1.2 --chunk=4 --layout=right-symmetric
six 6 5 1.2 --chunk=64
six10 6 4 1.0 --chunk=32 --layout=right-asymmetric
five-bitmap 5 4 1.2 --chunk=64 --bitmap=internal
six-bitmap 6 5 1.0 --chunk=64 --bitmap=internal
ARRAYS
}
# Runs a step of md_job over the lines of `arrays`.
uml() {
  rm -f "$md/result"
  TMPDIR=$base timeout 300 "$here/../uml/run" 1G "$md" "$here/md_job" SINEW_STEP="$1"
  [ -s "$md/result" ] || { echo "user-mode Linux did nothing"; tail -n 12 "$md/console"; return 1; }
}
md_bytes() { awk -v name="$1" '$1 == name {print $2}' "$md/made"; }
# The member files of an array, from $md: md_members NAME COUNT
md_members() { for i in $(seq 0 $(($2 - 1))); do echo "$1.$i"; done; }
# Serves an array of md: md_start MEMBER... [options]
md_start() {
  [ -n "$server" ] && stop
  members=(--md); for member in "$@"; do case $member in -*) members+=("$member");; *) members+=("$md/$member");; esac; done
  start
}
# Whether the served volume is the beginning of a file: md_same NAME FILE
md_same() {
  nbdcopy "$(uri "$1")" "$md/back" && [ "$(stat -c %s "$md/back")" = "$(md_bytes "$1")" ] &&
    cmp -n "$(md_bytes "$1")" "$md/back" "$2" || { echo "$1 differs from $2"; return 1; }
}

test_md_arrays() {
  need nbdcopy fio && need_uml || return
  fio --enghelp | grep -q nbd || { echo "fio without nbd"; return 77; }
  md=$dir/md; mkdir "$md"
  local name level count options line
  md_arrays >"$md/arrays"
  head -c 60M /dev/urandom >"$md/content"
  while read -r name level count options; do
    for i in $(seq 0 $((count - 1))); do truncate -s 12M "$md/$name.$i"; done
  done <"$md/arrays"
  uml make || return 1
  mv "$md/result" "$md/made"
  [ "$(wc -l <"$md/made")" = "$(wc -l <"$md/arrays")" ] || { echo "not all made:"; cat "$md/made"; return 1; }
  md_read_only && md_written && md_read_by_md
}

# Every byte matches, with all members and with one missing, and no byte is written.
md_read_only() {
  local name level count options all rest
  while read -r name level count options; do
    all=($(md_members "$name" "$count")); rest=("${all[@]:1}")
    sha256sum "${all[@]/#/$md/}" >"$md/before"
    md_start "${all[@]}" && md_same "$name" "$md/content" || return 1
    refused "read-only\|not permitted\|EPERM" nbdcopy "$md/back" "$(uri "$name")" || return 1
    if [ "$level" != 0 ]; then
      md_start "${rest[@]}" && md_same "$name" "$md/content" || return 1
      [ "$level" != 6 ] || { md_start "${all[@]:2}" && md_same "$name" "$md/content"; } || return 1
    else
      stop
      refused "not there" "$SINEW" serve --md "${rest[@]/#/$md/}" --unix "$dir/nbd" --control "$dir/ctl" || return 1
    fi
    [ -z "$server" ] || stop
    sha256sum --quiet --check "$md/before" || { echo "$name: members were changed"; return 1; }
  done < <(md_arrays)
}

md_load() {
  fio --name=w --ioengine=nbd --uri="$(uri "$1")" --rw=randwrite --bsrange=4k-256k --blockalign=4k --size="$(md_bytes "$1")" \
    --io_size=20M --iodepth=16 --verify=crc32c --verify_fatal=1 --do_verify=1 --minimal --verify_state_save=0 "${@:2}" >/dev/null
}

# Writes: with all members; with one missing; and with a kill during the writes.
md_written() {
  local name level count options all rest
  : >"$md/next"; : >"$md/sums"
  while read -r name level count options; do
    all=($(md_members "$name" "$count")); rest=("${all[@]:1}")
    case $name in
      six | one12 | five-bitmap)
        # The first member misses the writes. md takes it back only if there is a bitmap, and must then rebuild it completely.
        md_start "${rest[@]}" --write && md_load "$name" || return 1
        ;;
      five-rs | six-bitmap)
        md_start "${all[@]}" --write || return 1
        md_load "$name" --time_based --runtime=20 & local load=$!
        written || return 1; sleep 0.5; stop -KILL; wait "$load"
        refused "not stopped cleanly" "$SINEW" serve --md "${rest[@]/#/$md/}" --write --unix "$dir/nbd" \
          --control "$dir/ctl" || return 1
        md_start "${all[@]}" || return 1
        ;;
      *) md_start "${all[@]}" --write && md_load "$name" || return 1 ;;
    esac
    nbdcopy "$(uri "$name")" "$md/back" || return 1
    echo "$name $(sha256sum <"$md/back" | cut -d ' ' -f 1)" >>"$md/sums"
    stop
    echo "$name ${all[*]}" >>"$md/next"
  done < <(md_arrays)
}

# md assembles the written arrays, finds them consistent, and reads the same bytes.
md_read_by_md() {
  mv "$md/next" "$md/arrays"
  uml check || return 1
  local name level count options bytes used mismatches sum found expected
  while read -r name level count options; do
    read -r found bytes used mismatches sum < <(grep "^$name " "$md/result")
    expected=$(awk -v name="$name" '$1 == name {print $2}' "$md/sums")
    [ "$sum" = "$expected" ] && [ "$bytes" = "$(md_bytes "$name")" ] || { echo "md reads $name differently"; return 1; }
    case $name in
      six | one12) [ "$used" = $((count - 1)) ] ;;
      zero) [ "$used" = "$count" ] ;;
      *) [ "$used" = "$count" ] && [ "$mismatches" = 0 ] ;;
    esac || { echo "md finds $name wrong: $used members, $mismatches mismatches"; cat "$md/uml.log"; return 1; }
  done < <(md_arrays)
}
