//! Load on a vhost-user-blk socket: `vhost_load SOCKET read|write DEPTH SECONDS`.
//!
//! A guest of one queue that never sleeps: it asks for random blocks of 4 KiB, looks for answers all the time, and asks for
//! another block for each. Prints what it has done as JSON; a request that fails ends it.

use std::error::Error;
use std::os::fd::AsRawFd;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use vhost::vhost_user::message::VhostUserConfigFlags;
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::virtio_blk::{VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT};
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, VolatileSlice};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

const BLOCK: u64 = 4096;
const SECTOR: u64 = 512;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const HEADER_BYTES: u64 = 16;
/// Descriptors of a request: its header, its data, its status.
const PARTS: u16 = 3;
/// Where the server's addresses of the memory begin.
const USER: u64 = 0x7000_0000_0000;
/// Requests in flight, at most: each has three descriptors of a queue of 1024.
const DEPTH_MAX: u16 = 341;
/// The server rings for the answer that is this number ahead: never, since the number is moved on with each answer.
const NEVER: u16 = 0x7ff0;
/// The time is looked at once in this many rounds.
const ROUNDS_PER_LOOK: u64 = 64;

/// Where everything is in the memory of the guest.
struct Places {
    available: u64,
    used: u64,
    requests: u64,
    bytes: u64,
}

impl Places {
    fn new(entries: u64, depth: u64) -> Places {
        let page = |bytes: u64| bytes.next_multiple_of(BLOCK);
        let available = page(entries * 16);
        let used = available + page(6 + 2 * entries);
        let requests = used + page(6 + 8 * entries);
        Places { available, used, requests, bytes: requests + depth * 2 * BLOCK }
    }

    /// The data of a request; its header and its status are in the page behind it.
    fn data(&self, request: u16) -> u64 {
        self.requests + u64::from(request) * 2 * BLOCK
    }

    fn header(&self, request: u16) -> u64 {
        self.data(request) + BLOCK
    }

    fn status(&self, request: u16) -> u64 {
        self.header(request) + HEADER_BYTES
    }
}

/// One queue of a disk, all of whose requests are of one kind.
struct Guest<'a> {
    memory: VolatileSlice<'a>,
    places: Places,
    entries: u16,
    kick: EventFd,
    kind: u32,
    blocks: u64,
    /// State of the generator of random blocks (xorshift64).
    random: u64,
    available: u16,
    used: u16,
    kicks: u64,
}

impl Guest<'_> {
    fn put<T: vm_memory::ByteValued>(&self, at: u64, value: T) -> Result<(), Box<dyn Error>> {
        Ok(self.memory.write_obj(value, at as usize)?)
    }

    /// Lays the descriptors of a request down, which stay the same.
    fn lay(&self, request: u16) -> Result<(), Box<dyn Error>> {
        let (first, reads) = (request * PARTS, self.kind == VIRTIO_BLK_T_IN);
        let parts = [
            (self.places.header(request), HEADER_BYTES, NEXT),
            (self.places.data(request), BLOCK, NEXT | if reads { WRITE } else { 0 }),
            (self.places.status(request), 1, WRITE),
        ];
        for (index, (at, len, flags)) in (first..).zip(parts) {
            self.put(u64::from(index) * 16, Descriptor::new(at, len as u32, flags, index + 1))?;
        }
        Ok(())
    }

    /// Makes a request available, for another block.
    fn ask(&mut self, request: u16) -> Result<(), Box<dyn Error>> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let sector = self.random % self.blocks * (BLOCK / SECTOR);
        self.put(self.places.header(request), u64::from(self.kind))?;
        self.put(self.places.header(request) + 8, sector)?;
        self.put(self.places.status(request), 0xffu8)?;
        let entry = self.places.available + 4 + u64::from(self.available % self.entries) * 2;
        self.put(entry, request * PARTS)?;
        self.available = self.available.wrapping_add(1);
        Ok(())
    }

    /// Tells the server of all that is available; rings its bell if it asked for that.
    fn publish(&mut self, before: u16) -> Result<(), Box<dyn Error>> {
        self.memory.store(self.available, self.places.available as usize + 2, Ordering::Release)?;
        fence(Ordering::SeqCst);
        let event = self.places.used + 4 + u64::from(self.entries) * 8;
        let event: u16 = self.memory.load(event as usize, Ordering::Relaxed)?;
        let news = self.available.wrapping_sub(before);
        if self.available.wrapping_sub(event).wrapping_sub(1) < news {
            self.kick.write(1)?;
            self.kicks += 1;
        }
        Ok(())
    }

    /// Takes the answers that are there; asks again for each. Their number.
    fn turn(&mut self, asks: bool) -> Result<u16, Box<dyn Error>> {
        let used: u16 = self.memory.load(self.places.used as usize + 2, Ordering::Acquire)?;
        let (answers, before) = (used.wrapping_sub(self.used), self.available);
        for _ in 0..answers {
            let entry = self.places.used + 4 + u64::from(self.used % self.entries) * 8;
            let head: u32 = self.memory.read_obj(entry as usize)?;
            let request = head as u16 / PARTS;
            let status: u8 = self.memory.read_obj(self.places.status(request) as usize)?;
            if status != 0 {
                return Err(format!("a request failed with status {status}").into());
            }
            self.used = self.used.wrapping_add(1);
            if asks {
                self.ask(request)?;
            }
        }
        if answers > 0 {
            let event = self.places.available + 4 + u64::from(self.entries) * 2;
            self.put(event, self.used.wrapping_add(NEVER))?;
            if asks {
                self.publish(before)?;
            }
        }
        Ok(answers)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: vhost_load SOCKET read|write DEPTH SECONDS";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [socket, kind, depth, seconds] = &args[..] else { return Err(usage.into()) };
    let kind = match kind.as_str() {
        "read" => VIRTIO_BLK_T_IN,
        "write" => VIRTIO_BLK_T_OUT,
        _ => return Err(usage.into()),
    };
    let (depth, seconds) = (depth.parse::<u16>()?, seconds.parse::<f64>()?);
    if depth == 0 || depth > DEPTH_MAX {
        return Err(format!("the depth is from 1 to {DEPTH_MAX}").into());
    }
    let entries = (depth * PARTS).next_power_of_two();
    let places = Places::new(u64::from(entries), u64::from(depth));

    let file = tempfile::tempfile_in("/dev/shm")?;
    file.set_len(places.bytes)?;
    let offset = FileOffset::new(file.try_clone()?, 0);
    let ranges = [(GuestAddress(0), places.bytes as usize, Some(offset))];
    let memory = GuestMemoryMmap::<()>::from_ranges_with_files(ranges)?;
    let (kick, call) = (EventFd::new(EFD_NONBLOCK)?, EventFd::new(EFD_NONBLOCK)?);

    let mut control = Frontend::connect(socket, 1)?;
    let features = control.get_features()?;
    control.set_owner()?;
    let offered = control.get_protocol_features()?;
    control.set_protocol_features(offered)?;
    control.set_features(features)?;
    let (_, sectors) = control.get_config(0, 8, VhostUserConfigFlags::empty(), &[0; 8])?;
    let sectors = u64::from_le_bytes(sectors.try_into().map_err(|_| "the size of the disk is not told")?);
    control.set_mem_table(&[VhostUserMemoryRegionInfo {
        guest_phys_addr: 0,
        memory_size: places.bytes,
        userspace_addr: USER,
        mmap_offset: 0,
        mmap_handle: file.as_raw_fd(),
    }])?;
    control.set_vring_num(0, entries)?;
    control.set_vring_addr(
        0,
        &VringConfigData {
            queue_max_size: entries,
            queue_size: entries,
            flags: 0,
            desc_table_addr: USER,
            used_ring_addr: USER + places.used,
            avail_ring_addr: USER + places.available,
            log_addr: None,
        },
    )?;
    control.set_vring_base(0, 0)?;
    control.set_vring_call(0, &call)?;
    control.set_vring_kick(0, &kick)?;
    control.set_vring_enable(0, true)?;

    let slice = memory.get_slice(GuestAddress(0), places.bytes as usize)?;
    let blocks = sectors * SECTOR / BLOCK;
    let random = 0x9e37_79b9_7f4a_7c15;
    let mut guest =
        Guest { memory: slice, places, entries, kick, kind, blocks, random, available: 0, used: 0, kicks: 0 };
    for request in 0..depth {
        guest.lay(request)?;
        guest.ask(request)?;
    }
    guest.publish(0)?;
    let started = Instant::now();
    let length = Duration::from_secs_f64(seconds);
    let (mut requests, mut rounds) = (0u64, 0u64);
    let took = loop {
        requests += u64::from(guest.turn(true)?);
        rounds += 1;
        if rounds.is_multiple_of(ROUNDS_PER_LOOK) && started.elapsed() >= length {
            break started.elapsed();
        }
        std::hint::spin_loop();
    };
    while guest.used != guest.available {
        guest.turn(false)?;
    }
    control.get_vring_base(0)?;
    let (took, kicks) = (took.as_secs_f64(), guest.kicks);
    println!(
        "{{\"requests\": {requests}, \"seconds\": {took:.3}, \"iops\": {:.0}, \"kicks\": {kicks}}}",
        requests as f64 / took
    );
    Ok(())
}
