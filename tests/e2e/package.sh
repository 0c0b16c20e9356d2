# The Debian package: made of this build, installed in a root of its own, its unit carried out, and removed again.

test_package() {
  need dpkg-deb dpkg unshare objdump cargo nbdcopy man systemd-analyze || return
  [ "$(id -u)" = 0 ] || { echo "not root"; return 77; }
  local out=$dir/package
  cargo xtask package --binary "$SINEW" --out "$out" || return 1
  tar -tzf "$out"/sinew-*-linux.tar.gz >"$dir/listed"
  grep -q '^sinew-[^/]*/usr/bin/sinew$' "$dir/listed" || { echo "the tarball has no program"; return 1; }
  # Everything is mounted in a namespace of the job's own, and so ends with it.
  unshare --mount bash "$here/package_job" "$out" "$here"
}
