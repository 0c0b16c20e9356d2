# The tutorial, run as it is written, with the tarball of this build.

test_tutorial() {
  need dpkg-deb cargo nbdcopy nbdinfo objdump || return
  (echo >/dev/tcp/127.0.0.1/9810) 2>/dev/null && { echo "the port 9810 is in use"; return 77; }
  local out=$dir/tutorial-package
  mkdir "$dir/tutorial"
  cargo xtask package --binary "$SINEW" --out "$out" && cp "$out"/sinew-*-linux.tar.gz "$dir/tutorial/" || return 1
  /usr/bin/python3 "$here/tutorial.py" "$root/docs/tutorial.md" "$dir/tutorial"
}
