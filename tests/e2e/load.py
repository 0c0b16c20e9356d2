"""Writes numbered blocks and records the content that each may have; verifies it after a crash of the server.

load.py URI MODEL ROUND [SECONDS]   works until the server goes away (or the time is over), then stores the model
load.py URI MODEL verify            checks every block against the model
"""
import os, pickle, random, struct, sys, time
import nbd

BLOCK, DEPTH = 4096, 16
uri, path, what = sys.argv[1:4]
model = pickle.load(open(path, "rb")) if os.path.exists(path) else {}
h = nbd.NBD()
h.connect_uri(uri)
blocks = h.get_size() // BLOCK


def content(block, version):
    return bytes(BLOCK) if version == 0 else struct.pack("<QQ", block, version) * (BLOCK // 16)


if what == "verify":
    for block, legal in model.items():
        data = h.pread(BLOCK, block * BLOCK)
        found = [v for v in legal if content(block, v) == data]
        if not found:
            sys.exit(f"block {block}: {struct.unpack('<QQ', data[:16])}, legal are versions {sorted(legal)}")
        model[block] = {found[0]}
    pickle.dump(model, open(path, "wb"))
    print(f"{len(model)} blocks verified")
    sys.exit(0)

rng = random.Random(int(what))
version = int(what) << 32
until = time.monotonic() + (float(sys.argv[4]) if len(sys.argv) > 4 else 60)
# With a time limit, the server must stay, and no request may fail.
steady = len(sys.argv) > 4
pending, failed, acknowledged = {}, [], [0]
try:
    while time.monotonic() < until:
        while h.aio_in_flight() < DEPTH:
            block = rng.randrange(blocks)
            if block in pending:
                continue
            version += 1
            pending[block] = version
            # Until the write is answered, the block may have either content.
            model.setdefault(block, {0}).add(version)

            def done(error, block=block, version=version):
                # Compare the number in the object: the object itself never equals a number.
                if error.value == 0:
                    model[block] = {version}
                    acknowledged[0] += 1
                elif steady:
                    failed.append((block, error.value))
                del pending[block]
                return 1

            buf = nbd.Buffer.from_bytearray(bytearray(content(block, version)))
            if rng.random() < 0.02:
                h.aio_flush()
            h.aio_pwrite(buf, block * BLOCK, completion=done)
        h.poll(1000)
except nbd.Error as error:
    if steady:
        sys.exit(f"the server went away: {error}")
else:
    while h.aio_in_flight() > 0:
        h.poll(1000)
pickle.dump(model, open(path, "wb"))
if failed or acknowledged[0] == 0:
    sys.exit(f"{acknowledged[0]} writes acknowledged, failed (block, errno): {failed[:5]}")
