# NBD with TLS: certificates made with openssl as docs/howto/tls.md says, and clients that use GnuTLS.

# Makes the certificates of an authority: tls_authority DIR
tls_authority() {
  mkdir -p "$1" && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj "/CN=test authority" \
    -addext basicConstraints=critical,CA:true -addext keyUsage=critical,keyCertSign,cRLSign \
    -keyout "$1/ca-key.pem" -out "$1/ca-cert.pem" 2>/dev/null
}
# Signs a certificate: tls_issue AUTHORITY DIR server|client NAME [SAN] [openssl x509 options]
tls_issue() {
  mkdir -p "$2"
  [ "$1" = "$2" ] || cp "$1/ca-cert.pem" "$2/"
  printf 'extendedKeyUsage=%sAuth\nsubjectAltName=%s\n' "$3" "${5:-DNS:$4}" >"$2/$3.ext"
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$4" -keyout "$2/$3-key.pem" -out "$2/$3.csr" 2>/dev/null &&
    openssl x509 -req -in "$2/$3.csr" -CA "$1/ca-cert.pem" -CAkey "$1/ca-key.pem" -CAcreateserial -extfile "$2/$3.ext" \
      -out "$2/$3-cert.pem" ${6:--days 30} 2>/dev/null
}
# The address of the running server.
tls_port() { ctl pool status --json | sed -n 's/.*"tcp": "127.0.0.1:\([0-9]*\)".*/\1/p' | head -n 1; }
tls_uri() { echo "nbds://localhost:$(tls_port)/${2:-v}?tls-certificates=$1"; }
tls_told() { ctl events --json | grep -q "\"client-refused\".*$1"; }
tls_wait_told() { for _ in $(seq 50); do tls_told "$1" && return 0; sleep 0.1; done; ctl events; return 1; }
# Certificates, a pool with the volumes v and w, and a server that demands TLS: host1 may use v, root may use all.
tls_start() {
  rm -rf "$dir/tls"
  tls_authority "$dir/tls/ca" && tls_authority "$dir/tls/other" || return 1
  cp -r "$dir/tls/ca" "$dir/tls/server"
  tls_issue "$dir/tls/ca" "$dir/tls/server" server localhost "DNS:localhost,IP:127.0.0.1" &&
    tls_issue "$dir/tls/ca" "$dir/tls/host1" client host1 && tls_issue "$dir/tls/ca" "$dir/tls/root" client root || return 1
  fresh 256M 128M --volume w:64M && stop &&
    start --tcp 127.0.0.1:0 --tls-certificates "$dir/tls/server" --tls-client host1=v --tls-client 'root=*'
}

test_tls_libnbd() {
  need openssl nbdinfo nbdcopy || return
  tls_start || return 1
  [ "$(nbdinfo --size "$(tls_uri "$dir/tls/host1")")" = 134217728 ] || return 1
  nbdinfo "$(tls_uri "$dir/tls/host1")" | grep -q 'TLS' || { nbdinfo "$(tls_uri "$dir/tls/host1")"; return 1; }
  head -c 90M /dev/urandom >"$dir/in"; truncate -s 128M "$dir/in"
  nbdcopy "$dir/in" "$(tls_uri "$dir/tls/host1")" && nbdcopy "$(tls_uri "$dir/tls/root")" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  # What was written through TLS is what the Unix socket gives, plain and with TLS.
  nbdcopy "$(uri)" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  local unix="nbds+unix:///v?socket=$dir/nbd&tls-certificates=$dir/tls/host1&tls-hostname=localhost"
  nbdcopy "$unix" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  # The list has what the client may use.
  nbdinfo --list "$(tls_uri "$dir/tls/host1" '')" | grep -q 'export="v"' && ! nbdinfo --list "$(tls_uri "$dir/tls/host1" '')" | grep -q 'export="w"' || return 1
  nbdinfo --list "$(tls_uri "$dir/tls/root" '')" | grep -q 'export="w"'
}

test_tls_refuses() {
  need openssl nbdinfo || return
  tls_start || return 1
  nbdinfo "$(tls_uri "$dir/tls/host1" w)" 2>"$dir/err" && return 1
  tls_wait_told 'may not use export' || { cat "$dir/err"; return 1; }
  nbdinfo "nbd://localhost:$(tls_port)/v" 2>"$dir/err" && return 1
  tls_wait_told 'did not ask for TLS' || return 1
  # Of another authority with the same name; GnuTLS does not even show one of another name.
  tls_issue "$dir/tls/other" "$dir/tls/foreign" client host1 && cp "$dir/tls/ca/ca-cert.pem" "$dir/tls/foreign/" || return 1
  nbdinfo "$(tls_uri "$dir/tls/foreign")" 2>"$dir/err" && return 1
  tls_wait_told 'not signed by the certificate authority' || return 1
  mkdir "$dir/tls/none" && cp "$dir/tls/ca/ca-cert.pem" "$dir/tls/none/"
  nbdinfo "$(tls_uri "$dir/tls/none")" 2>"$dir/err" && return 1
  tls_wait_told 'has no certificate' || return 1
  if openssl x509 -help 2>&1 | grep -q -- -not_after; then
    tls_issue "$dir/tls/ca" "$dir/tls/late" client host1 DNS:host1 "-not_before 20200101000000Z -not_after 20200201000000Z" || return 1
  else
    # An end before the beginning: the certificate was never valid.
    tls_issue "$dir/tls/ca" "$dir/tls/late" client host1 DNS:host1 "-days -1" || return 1
  fi
  nbdinfo "$(tls_uri "$dir/tls/late")" 2>"$dir/err" && return 1
  tls_wait_told 'has expired' || return 1
  # A client that believes another authority leaves by itself.
  cp "$dir/tls/host1/"client-* "$dir/tls/other/" && nbdinfo "$(tls_uri "$dir/tls/other")" 2>"$dir/err" && return 1
  nbdinfo --size "$(tls_uri "$dir/tls/host1")" >/dev/null
}

test_tls_qemu() {
  need openssl qemu-img || return
  tls_start || return 1
  local creds="tls-creds-x509,id=t,endpoint=client,dir=$dir/tls/host1"
  local nbd="driver=nbd,host=localhost,port=$(tls_port),tls-creds=t,export"
  head -c 90M /dev/urandom >"$dir/in"; truncate -s 128M "$dir/in"
  qemu-img convert --object "$creds" -n -f raw --target-image-opts "$dir/in" "$nbd=v" || return 1
  qemu-img convert --object "$creds" -O raw --image-opts "$nbd=v" "$dir/back" && cmp "$dir/in" "$dir/back" || return 1
  qemu-img info --object "$creds" --image-opts "$nbd=w" 2>"$dir/err" && return 1
  grep -q "does not allow this export" "$dir/err" || { cat "$dir/err"; return 1; }
}

test_tls_nbdsh_and_nbdkit() {
  need openssl nbdkit nbdcopy || return
  /usr/bin/python3 -c 'import nbd' 2>/dev/null || { echo "no python3-libnbd"; return 77; }
  tls_start || return 1
  /usr/bin/python3 "$here/tls_clients.py" "$(tls_port)" "$dir/tls/host1" || return 1
  # nbdkit's proxy, which speaks TLS to us and plain to its client.
  head -c 20M /dev/urandom >"$dir/in"; truncate -s 128M "$dir/in"
  nbdkit -U - nbd hostname=localhost "port=$(tls_port)" export=v tls=require "tls-certificates=$dir/tls/host1" tls-verify=true --run "nbdcopy '$dir/in' \"\$uri\" && nbdcopy \"\$uri\" '$dir/back'" && cmp "$dir/in" "$dir/back"
}

# Our own client.
test_tls_replay() {
  need openssl || return
  tls_start || return 1
  ctl replay "$(tls_uri "$dir/tls/host1")" exchange-like --fold --limit 500 --speed 1000 --verify || return 1
  ctl replay "$(tls_uri "$dir/tls/host1" w)" exchange-like --fold --limit 5 --speed 1000 2>"$dir/err" && return 1
  grep -q "does not allow this export" "$dir/err"
}
