"""libnbd with TLS in its three modes, with many requests at once: tls_clients.py PORT DIR"""

import sys

import nbd

port, certificates = sys.argv[1], sys.argv[2]


def connected(mode):
    client = nbd.NBD()
    client.set_tls(mode)
    client.set_tls_certificates(certificates)
    client.set_export_name("v")
    client.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    client.connect_tcp("localhost", port)
    return client


try:
    connected(nbd.TLS_DISABLE)
    sys.exit("a client without TLS was let in")
except nbd.Error:
    pass

for mode in (nbd.TLS_ALLOW, nbd.TLS_REQUIRE):
    client = connected(mode)
    assert client.get_tls_negotiated()
    assert client.can_fua() and client.can_multi_conn()
    # More in flight than the sockets and the record layer buffer.
    size = 256 << 10
    blocks = [bytes([i]) * size for i in range(64)]
    buffers = [nbd.Buffer.from_bytearray(bytearray(block)) for block in blocks]
    cookies = [client.aio_pwrite(buffer, i * size) for i, buffer in enumerate(buffers)]
    while cookies:
        client.poll(-1)
        cookies = [cookie for cookie in cookies if not client.aio_command_completed(cookie)]
    client.flush()
    assert client.pread(64 * size, 0) == b"".join(blocks)
    client.zero(size, 0)
    assert client.pread(size, 0) == bytes(size)
    client.shutdown()
