"""What grows with a pool: the time to open it after a crash, and memory."""
import threading

from lab import GIB, MIB, Absent
from table import progress, single

MEMBERS = 8
# Raw bytes per byte of a full volume: parity, mirrors not yet converted, and room to move.
RAW = 1.7


def recovery(lab):
    """kill -9 and open again. The journal is empty when the pool was closed before and nothing was written since, and as
    full as it gets when random writes are under way."""
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
    """Random writes until the journal holds as much as it will; they go on until the server is killed."""

    def load():
        try:
            lab.fio("--ioengine=nbd", f"--uri={server.uri}", "--rw=randwrite", "--bs=4k", "--iodepth=32", "--runtime=600")
        except RuntimeError:
            pass  # The server was killed under it, as it should be.

    client = threading.Thread(target=load, daemon=True)
    client.start()
    most = 0
    for _ in range(600):
        used = lab.status(server)["journal"]["blocks_used"]
        # It is cleaned from half full on and then stays there: it is full when it grows no more.
        if most and used < most:
            break
        most = max(most, used)
    server.kill()
    client.join()


def footprint(lab):
    """Resident memory of a server, without files: empty, after its volume was written once in sequence, and after as
    many random 4 KiB writes as the volume has blocks, twice over. What grew is scaled to a volume of 1 TiB."""
    lab.need("fio")
    size = (GIB // 4) if lab.quick else 2 * GIB
    lab.need_room(lab.dir, size * RAW)
    member = int(size * RAW) // MEMBERS // MIB * MIB
    server = lab.start_pool(lab.dir, MEMBERS, member, size, "--protection=parity1", "--shards=1")
    # The buffers that requests pass through come to stay with the first of them.
    lab.fio("--ioengine=nbd", f"--uri={server.uri}", "--rw=randread", "--bs=1M", "--iodepth=4", "--io_size=64M", timed=False)
    lab.fio("--ioengine=nbd", f"--uri={server.uri}", "--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=4M", timed=False)
    empty = server.anonymous_bytes()
    lab.fill(server.uri)
    lab.settle(server)
    written, tables_written = server.anonymous_bytes(), lab.status(server)["table_bytes"]
    writes = ["--rw=randwrite", "--bs=4k", "--iodepth=32", f"--io_size={2 * size}"]
    lab.fio("--ioengine=nbd", f"--uri={server.uri}", *writes, timed=False)
    lab.settle(server)
    scattered, tables_scattered = server.anonymous_bytes(), lab.status(server)["table_bytes"]
    to_tib = (1 << 40) / size / GIB
    note = f"measured at {size / GIB:g} GiB, once, and scaled"
    figures = {
        "resident, written in sequence": written - empty,
        "resident, after random overwrites": scattered - empty,
        "tables, written in sequence": tables_written,
        "tables, after random overwrites": tables_scattered,
    }
    return [single("footprint", row, "GiB per TiB", [max(value, 0) * to_tib], note=note) for row, value in figures.items()]
