"""Costs that grow with a pool: the time to open it after a crash, and memory."""
import os
import threading
import time

from lab import GIB, MIB, Absent
from table import progress, single

MEMBERS = 8
# Raw bytes per byte of a full volume: parity, stripes still mirrored, and free space for compaction.
RAW = 2.4
# Seconds for which the journal is observed under load.
OBSERVED_SECONDS = 3


def recovery(lab):
    """kill -9, then open again. The journal is empty if the pool was closed before and nothing was written since, and as
    full as it gets if random writes are running."""
    lab.need("fio")
    rows = []
    for size in ([GIB // 4, GIB // 2] if lab.quick else [GIB, 4 * GIB, 16 * GIB]):
        name = f"volume of {size / GIB:g} GiB, full"
        directory = lab.new_dir(lab.large_base)
        try:
            lab.need_room(directory, size * RAW)
        except Absent as absent:
            rows.append({"group": "recovery", "row": name, "note": f"skipped: {absent}; see --large-dir"})
            continue
        rows += recover_one(lab, directory, size, name)
    return rows


def recover_one(lab, directory, size, name):
    member = int(size * RAW) // MEMBERS // MIB * MIB
    server = lab.start_pool(directory, MEMBERS, member, size, "--protection=parity1", "--shards=1")
    lab.fill(server.uri)
    lab.settle(server)
    taken = {"empty journal": [], "full journal": []}
    blocks = {kind: [] for kind in taken}
    for repeat in range(lab.repeats):
        for kind in taken:
            if kind == "full journal":
                load_until_full(lab, server)
            else:
                server.stop()
                server = lab.serve_pool(directory, server.files)
                lab.settle(server)
            server.kill()
            server = lab.serve_pool(directory, server.files)
            taken[kind].append(server.start_seconds * 1000)
            blocks[kind].append(server.recovered()[1])
            progress(f"   {repeat + 1}/{lab.repeats}  {name}, {kind}: {taken[kind][-1]:.1f} ms, {blocks[kind][-1]} journal blocks")
    server.kill()
    for file in server.files:
        with open(file, "wb"):
            pass
    return [
        single("recovery", f"{name}, {kind}", "ms", taken[kind], note=f"{min(blocks[kind])} to {max(blocks[kind])} journal blocks replayed")
        for kind in taken
    ]


def load_until_full(lab, server):
    """Random writes until the journal is as full as it gets; they continue until the server is killed."""

    def load():
        try:
            lab.fio("--ioengine=nbd", f"--uri={server.uri}", "--rw=randwrite", "--bs=4k", "--iodepth=32", "--runtime=600")
        except RuntimeError:
            pass  # The server was killed under it, as it should be.

    client = threading.Thread(target=load, daemon=True)
    client.start()
    # Checkpoints empty it repeatedly, from half full on; first observe how full it gets.
    until, used, most = time.monotonic() + OBSERVED_SECONDS, 0, 0
    while time.monotonic() < until or (used < most * 0.9 and time.monotonic() < until + OBSERVED_SECONDS):
        used = lab.status(server)["journal"]["blocks_used"]
        most = max(most, used)
    server.kill()
    client.join()


def footprint(lab):
    """Resident memory of a server, without files: empty, after its volume was written once in sequence, and after as
    many random 4 KiB writes as the volume has blocks, twice over. The server is started again for each figure, so that
    buffers of earlier requests do not count. What a volume four times as large takes in addition is scaled to 1 TiB: it
    is the part that grows. The rest is there once."""
    lab.need("fio")
    small = (GIB // 4) if lab.quick else 2 * GIB
    large = 4 * small
    lab.need_room(lab.base, large * RAW)
    figures = {size: footprint_of(lab, size) for size in (small, large)}
    rows = []
    for what in ("resident", "tables"):
        for i, when in ((1, "written in sequence"), (2, "after random overwrites")):
            few, many = (figures[size][what][i] for size in (small, large))
            slope = (many - few) / (large - small)
            note = f"measured once at {small / GIB:g} and {large / GIB:g} GiB: {few / MIB:.1f} and {many / MIB:.1f} MiB"
            if what == "resident":
                note += f", of which {(few - slope * small) / MIB:.0f} MiB are there once"
            rows.append(single("footprint", f"{what}, {when}", "GiB per TiB", [slope * 1024], note=note))
    return rows


def footprint_of(lab, size):
    """Bytes of memory, resident and of tables, with a volume of this size: empty, written, overwritten."""
    directory = lab.new_dir(lab.base)
    member = int(size * RAW) // MEMBERS // MIB * MIB
    server = lab.start_pool(directory, MEMBERS, member, size, "--protection=parity1", "--shards=1")
    writes = ["--rw=randwrite", "--bs=4k", "--iodepth=32", f"--io_size={2 * size}"]
    resident, tables = [], []
    for write in (
        lambda: None,
        lambda: lab.fill(server.uri),
        lambda: lab.fio("--ioengine=nbd", f"--uri={server.uri}", *writes, timed=False),
    ):
        write()
        server.stop()
        server = lab.serve_pool(directory, server.files)
        lab.settle(server)
        resident.append(server.anonymous_bytes())
        tables.append(lab.status(server)["table_bytes"])
    server.stop()
    for file in server.files:
        os.remove(file)
    return {"resident": resident, "tables": tables}
