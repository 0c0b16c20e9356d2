"""An elastic array beside md over zram in a user-mode Linux, each as a part of one raw zram's random writes there (after Elastic RAID,
table 2).

A user-mode Linux has one processor. So Sinew runs on one as well, with one shard, and so does fio on the raw zram of this machine;
zram compresses in the thread that submits. Content is the same in both: the arrays are full of what `sinew replay` wrote, and fio
writes from a file of such blocks that it has mapped as its buffers (`mem=mmapshared`). What fio makes by itself to compress has
zeros at the same offsets of all blocks, so its parity would compress as well."""
from arrays import uml
from elastic_array import DEPTH, RATIO
from lab import GIB, MIB, ROOT
from table import compare
from zram import ratio

ONE = "0"
# Arrays of md: the form of Sinew's stripes beside it, its name in the rows, and the mark for writes.
RIVALS = {
    "raid5": ("parity", "RAID 5 with the write hole open", None),
    "raid5-ppl": ("parity", "RAID 5 with PPL", ("at least", 1.5)),
    "raid5-journal": ("parity", "RAID 5 with a journal", ("at least", 3)),
    "raid10": ("mirrored", "RAID 10", None),
}


def rows(taken):
    taken = [sample for sample in taken if "md raid5" in sample]
    if not taken:
        return []

    def row(name, unit, form, rival, mine, peer, figure, mark=None, note=""):
        samples = {
            mine: [figure(sample[mine], sample[f"raw, {form}"]) for sample in taken],
            peer: [figure(sample[peer], sample[f"md raw-{rival}"]) for sample in taken],
        }
        return compare("elastic", name, unit, samples, mine, peer, mark, note=note)

    found = []
    for rival, (form, name, mark) in RIVALS.items():
        beside = f"all {form}, beside md's {name}"
        found.append(row(f"random write 4 KiB, {beside}", "of raw", form, rival, f"{form}, one processor", f"md {rival}",
                         lambda own, raw: own / raw, mark, "one processor each"))
        found += [
            row(f"{tail} of these writes, {beside}", "raw writes", form, rival, f"{form}, {tail}", f"md {rival} {tail}",
                lambda own, raw: own * raw / 1e6, note="in mean times of a raw write")
            for tail in ("p99", "p99.9")
        ]
    return found


class Rival:
    """md, and the raw zram of this machine. `content` is a file of an array's content."""

    def __init__(self, lab, size, raw, content):
        # An elastic array has half of its members' addresses for data and parity, and the other half for copies.
        self.lab, self.size, self.raw, self.content, self.blocks = lab, size // 2, raw, content, f"{lab.dir}/blocks"
        copy = lambda to, *words: lab.run(["dd", f"if={content}", f"of={to}", "status=none", *words])
        copy(raw, "bs=1M", f"count={size // MIB}", "oflag=direct")
        copy(self.blocks, "bs=4k", f"count={DEPTH}", "skip=4096")

    def raw_writes(self):
        """Random writes per second to the raw zram."""
        with open(f"{self.lab.dir}/buffers", "wb") as file:
            file.truncate(MIB)
        job = self.lab.fio(f"--filename={self.raw}", f"--size={self.size}", f"--cpus_allowed={ONE}", "--rw=randwrite", "--bs=4k",
                           f"--iodepth={DEPTH}", "--ioengine=libaio", "--direct=1", "--iodepth_batch_submit=16",
                           "--iodepth_batch_complete_min=1", "--iodepth_batch_complete_max=16", "--scramble_buffers=0",
                           f"--mem=mmapshared:{self.lab.dir}/buffers",
                           f"--exec_prerun=dd if={self.blocks} of={self.lab.dir}/buffers bs=4k conv=notrunc status=none")
        return job["write"]["iops"]

    def ours(self, array, form):
        """Sinew's figures with all stripes of one form, once, and the raw writes beside them."""
        raw, report = self.raw_writes(), array.replay("write", "uniform", 4096, *array.timed, cpus=ONE)
        return {
            f"raw, {form}": raw,
            f"{form}, one processor": report["iops"],
            f"{form}, p99": report["latency"]["p99_ns"] / 1000,
            f"{form}, p99.9": report["latency"]["p99_9_ns"] / 1000,
        }

    def sample(self):
        """md's figures, once: writes per second, and the percentiles of their times in microseconds."""
        found = uml(self.lab, 6 * self.size + GIB, f"{ROOT}/tests/bench/md_zram_job", f"SINEW_MB={self.size // MIB}",
                    f"SINEW_SECONDS={self.lab.seconds:g}", files={"content": self.content, "blocks": self.blocks}, cpus=ONE)
        here, there = ratio(self.raw), found["ratio-raw"]
        if abs(here - there) > 0.05 or abs(here - RATIO) > 0.1 or found["ratio-raid5"] < there + 0.05:
            raise RuntimeError(f"content compresses to {here:.3f} here, and in user-mode Linux to {there:.3f}; see md_zram_job")
        return {f"md {key.replace('-p99', ' p99')}": value for key, value in found.items()}
