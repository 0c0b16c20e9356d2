"""zram devices of this machine: block devices in memory that compress."""
import os
import time


def zrams(lab, count, size):
    """New zram devices; they are removed at the end."""
    found = []
    for _ in range(count):
        number = open("/sys/class/zram-control/hot_add").read().strip()
        lab.at_end(lambda number=number: remove(number))
        for name, value in (("comp_algorithm", "lz4"), ("disksize", str(size))):
            with open(f"/sys/block/zram{number}/{name}", "w") as file:
                file.write(value)
        until(lambda number=number: os.path.exists(f"/dev/zram{number}"))
        found.append(f"/dev/zram{number}")
    return found


def remove(number):
    for path, value in ((f"/sys/block/zram{number}/reset", "1"), ("/sys/class/zram-control/hot_remove", number)):
        with open(path, "w") as file:
            file.write(value)


def statistics(device):
    """The fields of `mm_stat`: bytes of content, bytes of it compressed, bytes of memory, and so on."""
    return [int(field) for field in open(f"/sys/block/{os.path.basename(device)}/mm_stat").read().split()]


def used(device):
    """Bytes of memory that a zram takes, without those that its allocator has free in between."""
    with open(f"/sys/block/{os.path.basename(device)}/compact", "w") as file:
        file.write("1")
    return statistics(device)[2]


def ratio(device):
    """The part of its size to which the content of a zram compresses."""
    content, compressed, *_ = statistics(device)
    return compressed / content


def limit_to(device, limit):
    """Sets the memory that a zram may take; 0 is no limit."""
    with open(f"/sys/block/{os.path.basename(device)}/mem_limit", "w") as file:
        file.write(str(int(limit)))


def until(done, patience=120, pause=0.005):
    end = time.monotonic() + patience
    while not done():
        if time.monotonic() > end:
            raise RuntimeError("it takes too long")
        time.sleep(pause)
