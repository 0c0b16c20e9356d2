# Presets on real members: created by name, served with the settings of the preset, and written data stays.

test_presets() {
  need nbdcopy || return
  local preset volume
  for preset in fusionraid raid50 elastic-raid10-only; do
    echo "preset $preset"
    [ -n "$server" ] && stop -KILL
    rm -f "$dir"/m[0-9]*
    members=(); for i in $(seq 0 12); do members+=("$dir/m$i"); done
    volume=(); [ $preset != fusionraid ] || volume=(--volume v:40M)
    "$SINEW" pool create v "${members[@]}" --size 24M --preset $preset ${volume[@]+"${volume[@]}"} || return 1
    start --preset $preset || return 1
    head -c 30M /dev/urandom >"$dir/in"
    nbdcopy "$dir/in" "$(uri)" && stop && start --preset $preset || return 1
    nbdcopy "$(uri)" "$dir/back" && cmp -n $((30 << 20)) "$dir/in" "$dir/back" || return 1
    case $preset in
      fusionraid) ctl policy | grep -q "whole-chunks" || { ctl policy; return 1; } ;;
      elastic-*) ctl array policy | grep -q "100 % of the stripes are mirrored" || { ctl array policy; return 1; } ;;
    esac
  done
  stop
  # An array is not a mapped pool, and a preset of four pools cannot be made as one.
  ! "$SINEW" serve "${members[@]}" --preset fusionraid --unix "$dir/nbd" --control "$dir/ctl" || return 1
  ! "$SINEW" bench --preset raid5x4 || return 1
}
