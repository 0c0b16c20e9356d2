//! Requests of the kernel's block devices, by a kernel in memory.

mod harness;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use harness::memory::{MemoryVolume, TaskIo};
use sinew_core::buf::Buf;
use sinew_core::volume::VolumeError;
use sinew_frontend::ublk::{Command, Progress, Queue, Request, serve_queue};

const VOLUME: u64 = 1 << 20;
const DEPTH: u16 = 4;

/// What the kernel has of a queue: requests on their way to each tag, the data of those in flight, and the answers.
#[derive(Clone)]
struct Kernel {
    requests: Vec<(async_channel::Sender<Request>, async_channel::Receiver<Request>)>,
    data: Rc<RefCell<BTreeMap<u16, Vec<u8>>>>,
    answers: Rc<RefCell<Vec<(u16, i32)>>>,
}

impl Kernel {
    fn new() -> Kernel {
        let requests = (0..DEPTH).map(|_| async_channel::unbounded()).collect();
        Kernel { requests, data: Rc::default(), answers: Rc::default() }
    }

    /// Sends a request with its data, which for a read is what will be filled.
    fn send(&self, tag: u16, command: Command, offset: u64, len: u64, data: &[u8]) {
        self.data.borrow_mut().insert(tag, data.to_vec());
        self.requests[usize::from(tag)].0.try_send(Request { command, offset, len }).expect("room");
    }

    /// The device is removed.
    fn stop(&self) {
        for (sender, _) in &self.requests {
            sender.close();
        }
    }

    fn take_answers(&self) -> Vec<(u16, i32)> {
        self.answers.take()
    }
}

impl Queue for Kernel {
    fn depth(&self) -> u16 {
        DEPTH
    }

    async fn next(&self, tag: u16, answer: Option<i32>) -> Option<Request> {
        self.answers.borrow_mut().extend(answer.map(|answer| (tag, answer)));
        self.requests[usize::from(tag)].1.recv().await.ok()
    }

    fn copy_from(&self, tag: u16, data: &mut [u8]) -> bool {
        let has = self.data.borrow()[&tag].clone();
        let is_whole = has.len() == data.len();
        if is_whole {
            data.copy_from_slice(&has);
        }
        is_whole
    }

    fn copy_to(&self, tag: u16, data: &[Buf]) -> bool {
        let bytes = data.iter().flat_map(|part| part.bytes().to_vec()).collect();
        self.data.borrow_mut().insert(tag, bytes);
        true
    }
}

struct World {
    io: TaskIo,
    volume: MemoryVolume,
    kernel: Kernel,
    progress: Progress,
}

fn world() -> World {
    let (io, volume) = (TaskIo::new(), MemoryVolume::new(VOLUME));
    let (kernel, progress) = (Kernel::new(), Progress::default());
    serve_queue(&io, &volume, kernel.clone(), &progress);
    World { io, volume, kernel, progress }
}

impl World {
    /// The answer to a request, and its data afterwards.
    fn request(&self, tag: u16, command: Command, offset: u64, len: u64, data: &[u8]) -> (i32, Vec<u8>) {
        self.kernel.send(tag, command, offset, len, data);
        self.io.settle();
        let answers = self.kernel.take_answers();
        let [(answered, answer)] = answers.as_slice() else { panic!("answers: {answers:?}") };
        assert_eq!(*answered, tag);
        (*answer, self.kernel.data.borrow()[&tag].clone())
    }
}

#[test]
fn a_kernel_gets_what_it_asks_for() {
    let world = world();
    let data: Vec<u8> = (0..9216).map(|i| (i / 512 + i) as u8).collect();
    let (volume, len) = (&world.volume, data.len() as u64);
    assert_eq!(world.request(2, Command::Write { fua: false }, 1536, len, &data).0, len as i32);
    assert_eq!(world.request(0, Command::Read, 1536, len, &[]), (len as i32, data.clone()));
    assert_eq!(volume.counts(), (0, 0));
    assert_eq!(world.request(1, Command::Flush, 0, 0, &[]).0, 0);
    assert_eq!(world.request(1, Command::Write { fua: true }, 0, 512, &data[..512]).0, 512);
    assert_eq!(volume.counts(), (1, 1));
    assert_eq!(world.request(3, Command::Discard, 0, 8192, &[]).0, 0);
    assert_eq!(volume.discards(), 1);
    assert_eq!(world.request(3, Command::Read, 4096, 512, &[]), (512, vec![0; 512]));
    for may_free in [true, false] {
        assert_eq!(world.request(0, Command::Write { fua: false }, 65536, len, &data).0, len as i32);
        let zeroes = Command::WriteZeroes { fua: false, may_free };
        assert_eq!(world.request(0, zeroes, 65536 + 512, 8192, &[]).0, 0);
        let (_, got) = world.request(0, Command::Read, 65536, len, &[]);
        let expected = [&data[..512], &[0; 8192], &data[8704..]].concat();
        assert_eq!(got, expected);
    }
}

#[test]
fn errors_have_the_numbers_of_linux() {
    let world = world();
    assert_eq!(world.request(0, Command::Read, VOLUME, 512, &[]).0, -22);
    assert_eq!(world.request(0, Command::Unknown, 0, 512, &[]).0, -95);
    // Data that cannot be had is not written.
    assert_eq!(world.request(0, Command::Write { fua: false }, 0, 512, &[7]).0, -5);
    let numbers = [
        (VolumeError::NoSpace, 28),
        (VolumeError::Failed, 5),
        (VolumeError::ReadOnly, 30),
        (VolumeError::Unsupported, 95),
        (VolumeError::Gone, 5),
    ];
    for (error, number) in numbers {
        world.volume.fail(Some(error));
        for command in [Command::Read, Command::Write { fua: false }, Command::Flush, Command::Discard] {
            assert_eq!(world.request(1, command, 0, 512, &[0; 512]).0, -number, "{command:?}: {error}");
        }
    }
    world.volume.fail(None);
    assert_eq!(world.request(0, Command::Read, 0, 512, &[]), (512, vec![0; 512]));
}

#[test]
fn tags_do_not_wait_for_each_other_and_end_with_the_device() {
    let world = world();
    world.volume.hold();
    for tag in 0..DEPTH {
        world.kernel.send(tag, Command::Write { fua: false }, u64::from(tag) * 4096, 4096, &[1; 4096]);
    }
    world.io.settle();
    assert!(!world.progress.is_idle() && world.kernel.take_answers().is_empty());
    world.volume.release();
    world.io.settle();
    assert_eq!(world.kernel.take_answers().len(), usize::from(DEPTH));
    assert!(world.progress.is_idle() && !world.progress.has_ended());
    world.kernel.stop();
    world.io.settle();
    assert!(world.progress.has_ended());
}

#[test]
fn a_server_that_leaves_answers_what_is_under_way_and_takes_nothing_more() {
    let world = world();
    world.volume.hold();
    world.kernel.send(0, Command::Write { fua: false }, 0, 512, &[1; 512]);
    world.io.settle();
    world.progress.leave();
    world.kernel.send(1, Command::Write { fua: false }, 4096, 512, &[2; 512]);
    world.io.settle();
    assert!(!world.progress.is_idle());
    world.volume.release();
    world.kernel.send(0, Command::Flush, 0, 0, &[]);
    world.io.settle();
    assert!(world.progress.is_idle());
    // The other two are for the next server.
    assert_eq!(world.kernel.take_answers(), [(0, 512)]);
    assert_eq!(world.volume.counts().0, 0);
}
