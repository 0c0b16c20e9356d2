"""A server that accepts a client and then violates the protocol: hostile_server.py SOCKET silent|garbage|half|endless"""
import os, socket, struct, sys, time

path, kind = sys.argv[1:3]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()


def reply(option, code, data=b""):
    return struct.pack(">QIII", 0x3E889045565A9, option, code, len(data)) + data


def welcome(s):
    s.sendall(b"NBDMAGICIHAVEOPT" + struct.pack(">H", 3))
    s.recv(4, socket.MSG_WAITALL)
    while True:
        _, option, length = struct.unpack(">8sII", s.recv(16, socket.MSG_WAITALL))
        s.recv(length, socket.MSG_WAITALL)
        if option == 7:
            s.sendall(reply(7, 3, struct.pack(">HQH", 0, 1 << 30, 0b101)) + reply(7, 1))
            return
        s.sendall(reply(option, 1))


while True:
    s, _ = listener.accept()
    try:
        welcome(s)
        request = s.recv(28, socket.MSG_WAITALL)
        cookie = request[8:16]
        if kind == "silent":
            time.sleep(60)
        elif kind == "garbage":
            s.sendall(os.urandom(100000))
        elif kind == "half":
            s.sendall(struct.pack(">IHH8sI", 0x668E33EF, 0, 1, cookie, 1 << 31))
        else:
            # An error message without an end.
            while True:
                s.sendall(struct.pack(">IHH8sIIH", 0x668E33EF, 0, 0x8001, cookie, 6, 5, 0))
    except OSError:
        pass
    s.close()
