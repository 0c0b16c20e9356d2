"""Requests that no client should send."""
import os, random, socket, struct, sys

path = sys.argv[1]
rng = random.Random(1)


def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    s.connect(path)
    return s


def go(s):
    s.recv(18, socket.MSG_WAITALL)
    s.sendall(struct.pack(">I", 3))
    name = b"v"
    body = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
    s.sendall(b"IHAVEOPT" + struct.pack(">II", 7, len(body)) + body)
    s.recv(4096)


for i in range(60):
    s = connect()
    kind = i % 6
    try:
        if kind == 0:
            s.sendall(os.urandom(rng.randrange(1, 5000)))
        elif kind == 1:
            s.sendall(struct.pack(">I", 3) + b"IHAVE")
        elif kind == 2:
            s.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 7, 0xFFFFFFFF) + b"x" * 4000)
        else:
            go(s)
            if kind == 3:
                # Half a write, then the connection closes.
                s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 1, 1, 0, 1 << 20) + b"y" * 1000)
            elif kind == 4:
                # A huge read and a bad magic.
                s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, 1, 0, 0xFFFFFFFF))
                s.sendall(struct.pack(">IHHQQI", 0x12345678, 0, 0, 1, 0, 4096))
            else:
                for n in range(200):
                    s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, n, 4096 * n, 4096))
    except OSError:
        pass
    s.close()
