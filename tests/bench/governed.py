"""An elastic array whose governor is free, on zram devices with a limit of memory: the share that it finds, what skewed requests gain
by it, and whether it comes to rest."""
import contextlib
import time

from elastic_array import DEPTH
from table import compare, single
from zram import limit_to

# Parts of the stripes that have room as mirrors, where the governor finds the share.
GOVERNED = (0.3, 0.7)
# That part where requests are skewed: with the hot fifth inside, and that of the paper's figure 11 at a compression of 1.6 where 1.4
# is expected.
ROOM, FIGURE_11 = 0.3, 0.112
# Seconds after which the governor is at rest under few requests: ten samples before it begins, and its conversions.
REST = 15
# Seconds without a conversion after which the governor counts as at rest under a load, and after which it counts as such anyway.
CALM, PATIENCE = 6, 90


def rows(taken, row):
    found = [
        single("elastic", f"share found by the governor, {100 * part:g} % by the closed form", "points off",
               [abs(sample[f"share, {part}"] - 100 * part) for sample in taken], ("at most", 5))
        for part in GOVERNED
    ]
    for part in (ROOM, FIGURE_11):
        room = f"room for {100 * part:g} %"
        samples = {
            "hits": [sample[f"80/20, {part}: hits"] for sample in taken],
            "mirrored": [sample[f"80/20, {part}: mirrored"] for sample in taken],
        }
        note = "by the governor"
        found += [
            compare("elastic", f"80/20: requests that use a mirrored stripe, {room}", "of all", samples, "hits", "mirrored", note=note),
            row(f"80/20: random write 4 KiB, {room}", "IOPS", f"80/20, {part}: write", "80/20: write", None, note),
            row(f"80/20: random read 4 KiB with a member out, {room}", "IOPS", f"80/20, {part}: degraded read", "80/20: degraded read",
                None, "by the governor; the paper has 1.33 (figure 11)" if part == FIGURE_11 else note),
        ]
    found += [
        row(f"uniform: random write 4 KiB, room for {100 * ROOM:g} %", "IOPS", f"uniform, {ROOM}: write", "uniform: write", None, note),
        single("elastic", "converted under a uniform load at rest", "of written", [sample["converted at rest"] for sample in taken],
               ("at most", 0.01), "bytes of the last half of a minute of writes"),
    ]
    return found


def sample(array, least, most, journal):
    """All figures, once. The members use `least` bytes with all stripes with parity, and `most` with all mirrored; `journal` is what
    they use more after writes."""
    found = {}
    for part in GOVERNED:
        with room_for(array, part, least, most):
            found[f"share, {part}"] = 100 * share_found(array)
    for kind, name, target in (("write", "write", None), ("read", "degraded read", array.rest)):
        found[f"80/20: {name}"] = array.replay(kind, "80/20", 4096, *array.timed, target=target)["iops"]
    least, most = least + journal, most + journal
    for part in (ROOM, FIGURE_11):
        with room_for(array, part, least, most):
            found |= {f"80/20, {part}: {key}": value for key, value in skewed(array).items()}
    found["uniform: write"] = array.replay("write", "uniform", 4096, *array.timed)["iops"]
    with room_for(array, ROOM, least, most):
        found["converted at rest"] = converted_at_rest(array)
        found[f"uniform, {ROOM}: write"] = array.replay("write", "uniform", 4096, *array.timed)["iops"]
    return found


@contextlib.contextmanager
def room_for(array, part, least, most):
    """Members with a limit of memory of which they use 80 %, the governor's lower limit, with this part of the stripes mirrored."""
    for member in array.members:
        limit_to(member, (least + part * (most - least)) / 0.80 / len(array.members))
    yield
    server = array.serve()
    array.order(server, "policy", "--interval=1s")
    server.stop()
    array.share(0)
    for member in array.members:
        limit_to(member, 0)


def serve_governed(array):
    """A server with the governor free, which takes four samples a second."""
    server = array.serve()
    array.order(server, "policy", "--low=80", "--high=90", "--interval=250ms")
    array.order(server, "share", "none")
    return server


def mirrored(array, server):
    """The share of mirrored stripes."""
    stripes = array.lab.status(server)["stripes"]
    return stripes["mirrored"] / (stripes["mirrored"] + stripes["parity"])


def share_found(array):
    """The share that the governor finds beside reads of all stripes, since only stripes in use become mirrored."""
    server = serve_governed(array)
    array.replay("read", "uniform", 4096, "--duration", str(REST), target=server.uri, depth=4)
    share = mirrored(array, server)
    server.stop()
    return share


def skewed(array):
    """What writes of the 80/20 rule, and reads with a member out, gain by the stripes that the governor chose beside such writes."""
    found, server = {}, serve_governed(array)
    load = array.begin("write", "80/20", 4096, target=server.uri)
    wait_for_rest(array, server)
    array.end(load)
    found["mirrored"] = mirrored(array, server)
    server.stop()
    # Hits are counted from the start of a server.
    server = array.serve()
    array.replay("write", "80/20", 4096, *array.timed, target=server.uri)
    found["hits"] = array.lab.status(server)["array"]["elastic"]["governor"]["hit_rate"]
    server.stop()
    found["write"] = array.replay("write", "80/20", 4096, *array.timed)["iops"]
    found["degraded read"] = array.replay("read", "80/20", 4096, *array.timed, target=array.rest)["iops"]
    return found


def converted(array, server):
    """Bytes of content converted so far, and bytes that clients wrote."""
    counters = array.lab.status(server)["counters"]
    return (counters["stripes_promoted"] + counters["stripes_demoted"]) * array.stripe_bytes, counters["written_bytes"]


def wait_for_rest(array, server):
    """Waits until the governor has converted something, and then nothing for a while."""
    end = time.monotonic() + PATIENCE
    before, since = converted(array, server)[0], time.monotonic()
    while time.monotonic() < end and (before == 0 or time.monotonic() < since + CALM):
        time.sleep(0.25)
        now = converted(array, server)[0]
        if now != before:
            before, since = now, time.monotonic()


def converted_at_rest(array):
    """Bytes converted by bytes written in the second half of a minute of uniform writes, once the governor has come to rest."""
    server = serve_governed(array)
    load = array.begin("write", "uniform", 4096, target=server.uri, depth=DEPTH)
    wait_for_rest(array, server)
    half = 5 if array.lab.quick else 30
    time.sleep(half)
    before = converted(array, server)
    time.sleep(half)
    after = converted(array, server)
    array.end(load)
    server.stop()
    return (after[0] - before[0]) / (after[1] - before[1])
