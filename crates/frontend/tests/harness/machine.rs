//! A virtual machine without a processor: memory, queues and a control socket, with a test in the role of the guest.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sinew_core::io::Io;
use sinew_core::volume::Volume;
use sinew_frontend::vhost::{Bell, Disk, RingStart, Rings, SessionEnd, serve_ring, serve_session};
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserInflight};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::memory::{MemoryVolume, TaskIo};

pub(crate) const QUEUE_SIZE: u16 = 16;
/// Where the process sees the memory that the guest sees from 0 on. Any value but that of the guest.
const USER: u64 = 0x7000_0000_0000;
/// Where the queues are in memory, and from where on it is free.
const QUEUE_BYTES: u64 = 0x4000;
pub(crate) const FREE: u64 = 0x10000;
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const FLUSH: u64 = 1 << 9;

/// A bell that is looked at again and again.
struct FileBell {
    event: File,
    is_silenced: AtomicBool,
}

impl Bell for FileBell {
    async fn rung(&self) -> bool {
        while !self.is_silenced.load(Ordering::SeqCst) {
            let mut value = [0; 8];
            match io::Read::read(&mut &self.event, &mut value) {
                Ok(8) => return true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => return false,
            }
            smol::Timer::after(Duration::from_micros(100)).await;
        }
        false
    }

    fn silence(&self) {
        self.is_silenced.store(true, Ordering::SeqCst);
    }

    fn ring(&self) {
        let _ = io::Write::write(&mut &self.event, &1u64.to_ne_bytes());
    }
}

/// One thread that serves rings.
#[derive(Clone)]
struct RingThread(async_channel::Sender<RingStart>);

impl RingThread {
    fn new(volume: MemoryVolume) -> RingThread {
        let (sender, rings) = async_channel::unbounded::<RingStart>();
        thread::spawn(move || {
            let io = TaskIo::new();
            let (spawner, task) = (io.clone(), volume);
            io.block_on(async move {
                while let Ok(ring) = rings.recv().await {
                    let bell = |fd: OwnedFd| FileBell { event: fd.into(), is_silenced: false.into() };
                    spawner.spawn(serve_ring(spawner.clone(), task.clone(), ring, bell));
                }
            });
        });
        RingThread(sender)
    }
}

impl Rings for RingThread {
    fn start(&self, ring: RingStart) {
        self.0.send_blocking(ring).expect("the thread lives");
    }
}

/// A queue as its guest sees it.
pub(crate) struct Queue {
    index: u64,
    pub(crate) kick: EventFd,
    pub(crate) call: EventFd,
    pub(crate) error: EventFd,
    /// Entries made available so far.
    pub(crate) available: u16,
    /// Answers seen so far.
    used: u16,
}

pub(crate) struct Machine {
    pub(crate) memory: GuestMemoryMmap,
    pub(crate) file: File,
    pub(crate) control: Frontend,
    pub(crate) queues: Vec<Queue>,
    pub(crate) faults: Arc<Mutex<Vec<String>>>,
    session: JoinHandle<SessionEnd>,
    bytes: u64,
}

/// A part of a request.
pub(crate) enum Part<'a> {
    Filled(&'a [u8]),
    Room(u32),
}

/// A control socket that nothing was said on yet, and the thread that serves it.
pub(crate) fn session(
    volume: &MemoryVolume,
    read_only: bool,
) -> (UnixStream, JoinHandle<SessionEnd>, Arc<Mutex<Vec<String>>>) {
    let (here, there) = UnixStream::pair().expect("a pair");
    let faults: Arc<Mutex<Vec<String>>> = Arc::default();
    let (told, size) = (Arc::clone(&faults), volume.clone());
    let disk = Disk {
        serial: "a serial number that is too long".into(),
        read_only,
        bytes: Arc::new(move || size.size_bytes()),
        fault: Arc::new(move |problem| told.lock().unwrap().push(problem.to_owned())),
    };
    let rings = RingThread::new(volume.clone());
    (here, thread::spawn(move || serve_session(there, disk, rings)), faults)
}

/// A control socket with features agreed on.
fn connected(
    volume: &MemoryVolume,
    without: u64,
    read_only: bool,
) -> (Frontend, JoinHandle<SessionEnd>, Arc<Mutex<Vec<String>>>) {
    let (socket, session, faults) = session(volume, read_only);
    let mut control = Frontend::from_stream(socket, 64);
    let features = control.get_features().expect("features") & !without;
    control.set_owner().expect("owner");
    let offered = control.get_protocol_features().expect("protocol features");
    control.set_protocol_features(offered).expect("set");
    control.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    control.set_features(features).expect("features");
    (control, session, faults)
}

impl Machine {
    /// A machine with this much memory, and these queues of the disk set up and running. `without` are features that the guest
    /// does not know.
    pub(crate) fn new(
        volume: &MemoryVolume,
        bytes: u64,
        queues: usize,
        without: u64,
        read_only: bool,
    ) -> Machine {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(bytes).expect("set_len");
        let offset = FileOffset::new(file.try_clone().expect("a clone"), 0);
        let memory =
            GuestMemoryMmap::from_ranges_with_files([(GuestAddress(0), bytes as usize, Some(offset))]);
        let (control, session, faults) = connected(volume, without, read_only);
        let queue =
            |index| Queue { index, kick: event(), call: event(), error: event(), available: 0, used: 0 };
        let queues = (0..queues as u64).map(queue).collect();
        let memory = memory.expect("memory");
        let mut machine = Machine { memory, file, control, queues, faults, session, bytes };
        machine.share(0, bytes, USER);
        for queue in 0..machine.queues.len() {
            machine.set_up(queue);
        }
        machine
    }

    /// The same machine, connected to another server. The rings of the first one are as if it had ended.
    pub(crate) fn connect_anew(self, volume: &MemoryVolume) -> Machine {
        let (control, session, faults) = connected(volume, 0, false);
        let Machine { memory, file, mut queues, bytes, control: first, session: first_session, .. } = self;
        // The first server would take kicks away.
        queues.iter_mut().for_each(|queue| queue.kick = event());
        // They live on: their requests wait for good.
        std::mem::forget((first, first_session));
        let mut machine = Machine { memory, file, control, queues, faults, session, bytes };
        machine.share(0, bytes, USER);
        machine
    }

    /// Memory for the requests in flight of this number of queues.
    pub(crate) fn inflight(&mut self, queues: u16) -> (VhostUserInflight, File) {
        self.control.get_inflight_fd(&VhostUserInflight::new(0, 0, queues, QUEUE_SIZE)).expect("memory")
    }

    /// Shares all memory, as one region.
    fn share(&mut self, guest: u64, bytes: u64, user: u64) {
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: guest,
            memory_size: bytes,
            userspace_addr: user,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        };
        self.control.set_mem_table(&[region]).expect("memory");
    }

    /// A further region, seen by the guest behind all others.
    pub(crate) fn region(&self, file: &File) -> VhostUserMemoryRegionInfo {
        VhostUserMemoryRegionInfo {
            guest_phys_addr: self.bytes,
            memory_size: file.metadata().expect("metadata").len(),
            userspace_addr: USER + 2 * self.bytes,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        }
    }

    /// Maps a further region on this side.
    pub(crate) fn map(&mut self, file: &File) {
        let bytes = file.metadata().expect("metadata").len() as usize;
        let offset = FileOffset::new(file.try_clone().expect("a clone"), 0);
        let region = GuestRegionMmap::from_range(GuestAddress(self.bytes), bytes, Some(offset));
        self.memory = self.memory.insert_region(Arc::new(region.expect("mapped"))).expect("no overlap");
    }

    /// Sets a queue up from where it is, and starts it.
    pub(crate) fn set_up(&mut self, index: usize) {
        self.set_up_from(index, self.queues[index].available);
    }

    pub(crate) fn set_up_from(&mut self, index: usize, base: u16) {
        let at = USER + index as u64 * QUEUE_BYTES;
        let queue = &self.queues[index];
        let control = &mut self.control;
        control.set_vring_num(index, QUEUE_SIZE).expect("size");
        let config = VringConfigData {
            queue_max_size: QUEUE_SIZE,
            queue_size: QUEUE_SIZE,
            flags: 0,
            desc_table_addr: at,
            used_ring_addr: at + 0x2000,
            avail_ring_addr: at + 0x1000,
            log_addr: None,
        };
        control.set_vring_addr(index, &config).expect("addresses");
        control.set_vring_base(index, base).expect("base");
        control.set_vring_call(index, &queue.call).expect("call");
        control.set_vring_err(index, &queue.error).expect("err");
        control.set_vring_kick(index, &queue.kick).expect("kick");
        control.set_vring_enable(index, true).expect("enabled");
    }

    /// The places of a queue in memory: descriptors, available, used.
    pub(crate) fn places(&self, queue: usize) -> (u64, u64, u64) {
        let at = self.queues[queue].index * QUEUE_BYTES;
        (at, at + 0x1000, at + 0x2000)
    }

    pub(crate) fn put_descriptor(&self, queue: usize, index: u16, descriptor: Descriptor) {
        let at = self.places(queue).0 + u64::from(index) * 16;
        self.memory.write_obj(descriptor, GuestAddress(at)).expect("in memory");
    }

    /// Makes a chain available, and kicks.
    pub(crate) fn offer(&mut self, queue: usize, head: u16) {
        self.offer_with(queue, head, true);
    }

    /// Makes a chain available, and kicks or does not.
    pub(crate) fn offer_with(&mut self, queue: usize, head: u16, kicks: bool) {
        let (_, available, _) = self.places(queue);
        let state = &mut self.queues[queue];
        let entry = available + 4 + u64::from(state.available % QUEUE_SIZE) * 2;
        self.memory.write_obj(head, GuestAddress(entry)).expect("in memory");
        state.available = state.available.wrapping_add(1);
        let index = GuestAddress(available + 2);
        self.memory.store(state.available, index, Ordering::SeqCst).expect("in memory");
        if kicks {
            state.kick.write(1).expect("kicked");
        }
    }

    /// Lays a request down from an address on, in descriptors from `head` on. Its status byte is the last.
    pub(crate) fn lay(&self, queue: usize, head: u16, from: u64, kind: u32, sector: u64, parts: &[Part<'_>]) {
        let header = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        let header = Part::Filled(&header);
        let status = Part::Room(1);
        let all: Vec<&Part<'_>> = [&header].into_iter().chain(parts).chain([&status]).collect();
        let mut at = from;
        for (index, part) in all.iter().enumerate() {
            let (len, flags) = match part {
                Part::Filled(bytes) => {
                    self.memory.write_slice(bytes, GuestAddress(at)).expect("in memory");
                    (bytes.len() as u32, 0)
                }
                Part::Room(len) => (*len, WRITE),
            };
            let is_last = index + 1 == all.len();
            let index = head + index as u16;
            let flags = if is_last { flags } else { flags | NEXT };
            self.put_descriptor(queue, index, Descriptor::new(at, len, flags, index + 1));
            at += u64::from(len);
        }
    }

    /// Waits for the next answer: its descriptor, and the bytes that were written.
    pub(crate) fn answer(&mut self, queue: usize) -> (u32, u32) {
        let (_, _, used) = self.places(queue);
        let until = Instant::now() + Duration::from_secs(20);
        let state = &mut self.queues[queue];
        loop {
            let index: u16 = self.memory.load(GuestAddress(used + 2), Ordering::SeqCst).expect("in memory");
            if index != state.used {
                break;
            }
            assert!(Instant::now() < until, "no answer; faults: {:?}", self.faults.lock().unwrap());
            thread::sleep(Duration::from_micros(100));
        }
        let entry = used + 4 + u64::from(state.used % QUEUE_SIZE) * 8;
        state.used = state.used.wrapping_add(1);
        // The next answer is to be told, too.
        let (_, available, _) = (0, state.index * QUEUE_BYTES + 0x1000, 0);
        let event = available + 4 + u64::from(QUEUE_SIZE) * 2;
        self.memory.write_obj(state.used, GuestAddress(event)).expect("in memory");
        let pair: [u32; 2] = [
            self.memory.read_obj(GuestAddress(entry)).expect("in memory"),
            self.memory.read_obj(GuestAddress(entry + 4)).expect("in memory"),
        ];
        (pair[0], pair[1])
    }

    /// Whether the server looks at the ring no more, and waits for a kick for the next chain.
    pub(crate) fn awaits_kick(&self, queue: usize) -> bool {
        let (_, _, used) = self.places(queue);
        let event = GuestAddress(used + 4 + u64::from(QUEUE_SIZE) * 8);
        self.memory.load::<u16>(event, Ordering::SeqCst).expect("in memory") == self.queues[queue].available
    }

    /// Answers that were given, but not seen.
    pub(crate) fn unseen(&self, queue: usize) -> u16 {
        let (_, _, used) = self.places(queue);
        let index: u16 = self.memory.load(GuestAddress(used + 2), Ordering::SeqCst).expect("in memory");
        index.wrapping_sub(self.queues[queue].used)
    }

    /// Carries out one request: its status, and what was written to its room.
    pub(crate) fn request(
        &mut self,
        queue: usize,
        kind: u32,
        sector: u64,
        filled: &[u8],
        room: u32,
    ) -> (u8, Vec<u8>) {
        let parts = match (filled.len(), room) {
            (0, 0) => vec![],
            (0, room) => vec![Part::Room(room)],
            (_, 0) => vec![Part::Filled(filled)],
            _ => vec![Part::Filled(filled), Part::Room(room)],
        };
        self.lay(queue, 0, FREE, kind, sector, &parts);
        self.offer(queue, 0);
        let (head, written) = self.answer(queue);
        assert_eq!(head, 0);
        let data = FREE + 16 + filled.len() as u64;
        let mut back = vec![0; room as usize + 1];
        self.memory.read_slice(&mut back, GuestAddress(data)).expect("in memory");
        let status = back.pop().expect("a status");
        back.truncate(written as usize - 1);
        (status, back)
    }

    /// Closes the control socket; how its session has ended.
    pub(crate) fn end(self) -> SessionEnd {
        drop(self.control);
        self.session.join().expect("no panic")
    }
}

fn event() -> EventFd {
    EventFd::new(EFD_NONBLOCK).expect("an eventfd")
}
