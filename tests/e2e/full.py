"""Fills a volume that is larger than its pool: writes must fail with ENOSPC, and the pool must stay usable."""
import errno, random, sys
import nbd

STEP = 1 << 18
h = nbd.NBD()
h.connect_uri(sys.argv[1])


def data(n):
    """Content that does not compress."""
    return random.Random(n).randbytes(STEP)


def fill():
    stored = []
    for n in range(h.get_size() // STEP):
        try:
            h.pwrite(data(n), n * STEP)
            stored.append(n)
        except nbd.Error as error:
            if error.errnum != errno.ENOSPC:
                sys.exit(f"write {n}: {error}, not ENOSPC")
            break
    else:
        sys.exit("the pool never filled")
    return stored


def verify(stored):
    for n in stored:
        if h.pread(STEP, n * STEP) != data(n):
            sys.exit(f"{n} is not what was written")


if sys.argv[2] == "store":
    stored = fill()
    h.flush()
    print(len(stored))
elif sys.argv[2] == "verify":
    verify(range(int(sys.argv[3])))
elif sys.argv[2] == "fill":
    stored = fill()
    verify(stored)
    # Overwrites need no additional space.
    for n in stored[:64]:
        h.pwrite(data(n), n * STEP)
    h.trim(STEP * 40, 0)
    h.pwrite(data(7), 7 * STEP)
    h.flush()
    print(f"{len(stored)} stored")
elif sys.argv[2] == "full":
    # Of 16 concurrent writes, none fails for a reason other than space.
    errors = []
    for n in range(h.get_size() // STEP):
        while h.aio_in_flight() >= 16:
            h.poll(-1)
        buf = nbd.Buffer.from_bytearray(bytearray(data(n)))
        h.aio_pwrite(buf, n * STEP, completion=lambda error: errors.append(error.value) or 1)
    while h.aio_in_flight() > 0:
        h.poll(-1)
    if set(errors) - {0, errno.ENOSPC} or errno.ENOSPC not in errors:
        sys.exit(f"writes ended with {set(errors)}")
    h.trim(h.get_size() // STEP * STEP // 2, 0)
    h.pwrite(data(1), STEP)
    h.flush()
    if h.pread(STEP, STEP) != data(1):
        sys.exit("a write after the discard is not there")
else:
    if h.pread(STEP, 7 * STEP) != data(7) or h.pread(STEP, 50 * STEP) != data(50):
        sys.exit("the restart lost something")
    h.trim(h.get_size() // STEP * STEP // 2, 0)
    fill()
