//! The io_uring of one runtime and the slots of its requests.
//!
//! A slot owns everything the kernel may touch until the completion arrives, whatever becomes of the future that waits
//! for it. That ownership is the whole safety argument of this crate's asynchronous part.

use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};
use sinew_core::buf::Buf;
use sinew_core::io::Gather;
use sinew_core::transport::Part;
use slab::Slab;

use crate::device::Device;

/// An open device as one runtime's requests hold it: counting references to it costs no shared cache line.
pub(crate) type Handle = Rc<Arc<Device>>;

/// A gathered send: the parts, what points to them, and the header that points to that.
pub(crate) struct Sending {
    pub(crate) parts: Vec<Part>,
    pub(crate) iovecs: Vec<libc::iovec>,
    pub(crate) header: libc::msghdr,
}

/// The memory and descriptors of a request, which its slot owns.
#[expect(dead_code, reason = "fields are held for what they keep alive")]
pub(crate) enum Payload {
    /// Stands in while a payload moves from one state of its slot to the next.
    Nothing,
    Read(Buf, Handle),
    Write {
        data: Gather,
        iovecs: Vec<libc::iovec>,
        device: Handle,
    },
    Device(Handle),
    Recv(Part, Rc<OwnedFd>),
    Send(Box<Sending>, Rc<OwnedFd>),
    Accept(Rc<OwnedFd>),
    Readable(Rc<OwnedFd>),
    /// A command of a driver, which may never end.
    Command(Rc<OwnedFd>),
}

impl Payload {
    /// The device of a request.
    fn device(&self) -> Option<&Handle> {
        match self {
            Payload::Read(_, device) | Payload::Write { device, .. } | Payload::Device(device) => {
                Some(device)
            }
            _ => None,
        }
    }
}

enum Slot {
    Waiting(Option<Waker>, Payload),
    Done(i32, Payload),
    /// The device was abandoned; the next poll of the future returns this.
    Abandoned(Payload),
    /// The future was dropped. Keeps the memory until the kernel has completed the request.
    Orphan(Payload),
}

impl Slot {
    /// Whether the kernel has nothing of the slot, or only what it may keep.
    fn has_ended(&self) -> bool {
        match self {
            Slot::Done(..) => true,
            Slot::Waiting(_, payload) | Slot::Abandoned(payload) | Slot::Orphan(payload) => {
                matches!(payload, Payload::Command(_))
            }
        }
    }
}

/// Completions that belong to no slot.
const WAKE: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;

/// Where the eight bytes of the eventfd go: shared by all rings, never read, so it needs neither owner nor order.
struct Sink(UnsafeCell<u64>);
// SAFETY: only kernels write to it and nothing reads it.
unsafe impl Sync for Sink {}
static SINK: Sink = Sink(UnsafeCell::new(0));

/// A ring and the requests in it.
pub(crate) struct Ring {
    uring: IoUring,
    slots: Slab<Slot>,
    /// Completions taken from the kernel but not yet handed to their slots.
    reaped: Vec<(u64, i32)>,
    eventfd: RawFd,
    eventfd_armed: bool,
}

impl Ring {
    /// A ring for the calling thread that also watches `eventfd`, which must stay open as long as the ring.
    pub(crate) fn new(entries: u32, eventfd: RawFd) -> io::Result<Ring> {
        let uring = build(entries)?;
        if !uring.params().is_feature_ext_arg() || !uring.params().is_feature_nodrop() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "io_uring of Linux 5.11 or newer is needed",
            ));
        }
        let reaped = Vec::with_capacity(1024);
        Ok(Ring { uring, slots: Slab::with_capacity(256), reaped, eventfd, eventfd_armed: false })
    }

    /// Queues a request. It reaches the kernel at the next `enter`, or earlier when the queue is full.
    ///
    /// # Safety
    /// All memory and descriptors `entry` refers to must be owned by `payload`, at addresses that moving it keeps.
    pub(crate) unsafe fn push(&mut self, entry: Entry, payload: Payload) -> usize {
        let slot = self.slots.insert(Slot::Waiting(None, payload));
        // SAFETY: the slot just filled owns what the entry refers to until its completion.
        unsafe { self.push_raw(entry.user_data(slot as u64)) };
        slot
    }

    /// # Safety
    /// All memory and descriptors that `entry` refers to must stay valid until its completion.
    unsafe fn push_raw(&mut self, entry: Entry) {
        // SAFETY: the caller's promise.
        while unsafe { self.uring.submission().push(&entry) }.is_err() {
            // A kernel short of memory or with an overflown completion queue asks to come back later.
            let _ = self.uring.submit();
            self.harvest();
        }
    }

    /// Whether a slot's request has completed; if not, `waker` will be woken.
    pub(crate) fn poll(&mut self, slot: usize, waker: &Waker) -> Poll<(i32, Payload)> {
        match &mut self.slots[slot] {
            Slot::Waiting(Some(old), _) => {
                old.clone_from(waker);
                Poll::Pending
            }
            Slot::Waiting(none, _) => {
                *none = Some(waker.clone());
                Poll::Pending
            }
            Slot::Done(..) => match self.slots.remove(slot) {
                Slot::Done(result, payload) => Poll::Ready((result, payload)),
                _ => unreachable!("matched above"),
            },
            Slot::Abandoned(_) => {
                let (_, owned) = self.orphan(slot);
                debug_assert!(owned.is_none(), "the kernel still has it");
                Poll::Ready((-libc::ENXIO, Payload::Nothing))
            }
            Slot::Orphan(_) => unreachable!("an orphan has no future"),
        }
    }

    /// Ends the futures of requests to abandoned devices; their payloads stay in the slots. Returns the wakers to wake when
    /// the ring is not borrowed.
    pub(crate) fn abandon(&mut self, is_given_up: impl Fn(&Handle) -> bool) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for (_, slot) in &mut self.slots {
            let Slot::Waiting(waker, payload) = slot else { continue };
            if payload.device().is_some_and(&is_given_up) {
                wakers.extend(waker.take());
                *slot = Slot::Abandoned(mem::replace(payload, Payload::Nothing));
            }
        }
        wakers
    }

    /// Notes that the future of a slot was dropped. Returns what the caller can drop when the ring is not borrowed.
    pub(crate) fn orphan(&mut self, slot: usize) -> (Option<Waker>, Option<Payload>) {
        let Some(place) = self.slots.get_mut(slot) else {
            return (None, None); // Leaked at shutdown.
        };
        match mem::replace(place, Slot::Orphan(Payload::Nothing)) {
            Slot::Waiting(waker, payload) => {
                *place = Slot::Orphan(payload);
                (waker, None)
            }
            Slot::Abandoned(payload) => {
                *place = Slot::Orphan(payload);
                (None, None)
            }
            Slot::Done(result, payload) => {
                self.slots.remove(slot);
                discard_result(&payload, result);
                (None, Some(payload))
            }
            Slot::Orphan(_) => unreachable!("orphaned twice"),
        }
    }

    /// Asks the kernel to end a request; its slot gets a result as ever, soon.
    pub(crate) fn cancel(&mut self, slot: usize) {
        let cancel = opcode::AsyncCancel::new(slot as u64).build();
        // SAFETY: the entry refers to no memory.
        unsafe { self.push_raw(cancel.user_data(CANCEL)) };
    }

    /// Submits the queued requests and, with `wait`, sleeps until a completion arrives or the time is up.
    pub(crate) fn enter(&mut self, wait: bool, timeout: Option<Duration>) -> io::Result<()> {
        self.arm_eventfd();
        let done = match (wait, timeout) {
            (false, _) => self.uring.submit(),
            (true, None) => self.uring.submit_and_wait(1),
            (true, Some(timeout)) => {
                let timespec = types::Timespec::new().sec(timeout.as_secs()).nsec(timeout.subsec_nanos());
                let args = types::SubmitArgs::new().timespec(&timespec);
                self.uring.submitter().submit_with_args(1, &args)
            }
        };
        self.harvest();
        match done {
            Ok(_) => Ok(()),
            // Time is up, a signal, or a kernel that asks for its completions to be reaped first.
            Err(error) if is_transient(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether `enter` has something to submit or to fetch.
    pub(crate) fn wants_enter(&mut self) -> bool {
        let queue = self.uring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Whether completions can be taken without a system call.
    pub(crate) fn has_completions(&mut self) -> bool {
        !self.reaped.is_empty() || !self.uring.completion().is_empty()
    }

    /// Takes completions from the shared queue.
    pub(crate) fn harvest(&mut self) {
        for entry in self.uring.completion() {
            self.reaped.push((entry.user_data(), entry.result()));
        }
    }

    /// The harvested completions, to be handed to `complete` one by one; give the vector back with `recycle`.
    pub(crate) fn take_reaped(&mut self) -> Vec<(u64, i32)> {
        mem::take(&mut self.reaped)
    }

    /// Takes the vector of `take_reaped` back for reuse.
    pub(crate) fn recycle(&mut self, mut taken: Vec<(u64, i32)>) {
        taken.clear();
        taken.append(&mut self.reaped);
        self.reaped = taken;
    }

    /// Hands a completion to its slot. Returns the waker to wake, and what an orphan owned, both to be used by the
    /// caller when the ring is not borrowed.
    pub(crate) fn complete(&mut self, user_data: u64, result: i32) -> (Option<Waker>, Option<Payload>) {
        match user_data {
            WAKE => self.eventfd_armed = false,
            CANCEL => {}
            slot => {
                let slot = &mut self.slots[slot as usize];
                if let Slot::Orphan(_) = slot {
                    let Slot::Orphan(payload) = self.slots.remove(user_data as usize) else { unreachable!() };
                    discard_result(&payload, result);
                    return (None, Some(payload));
                }
                let (waker, payload) = match mem::replace(slot, Slot::Orphan(Payload::Nothing)) {
                    Slot::Waiting(waker, payload) => (waker, payload),
                    // Its future has been woken already.
                    Slot::Abandoned(payload) => (None, payload),
                    _ => unreachable!("two completions for one request"),
                };
                *slot = Slot::Done(result, payload);
                return (waker, None);
            }
        }
        (None, None)
    }

    fn arm_eventfd(&mut self) {
        if self.eventfd_armed {
            return;
        }
        self.eventfd_armed = true;
        let entry = opcode::Read::new(types::Fd(self.eventfd), SINK.0.get().cast(), 8).build();
        // SAFETY: the sink is static, and the eventfd outlives the ring by the contract of `new`.
        unsafe { self.push_raw(entry.user_data(WAKE)) };
    }

    /// Cancels all requests in flight and waits for them, so that the kernel touches no memory afterwards. The payloads of
    /// requests that do not end (a hung device) are leaked. Commands of drivers have no memory; they end with the ring.
    pub(crate) fn shut_down(&mut self) {
        let cancel = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
        // SAFETY: the entry refers to no memory.
        unsafe { self.push_raw(cancel.user_data(CANCEL)) };
        for _ in 0..100 {
            if self.slots.iter().all(|(_, slot)| slot.has_ended()) {
                return;
            }
            self.eventfd_armed = true; // It was cancelled as well and must stay so.
            let _ = self.enter(true, Some(Duration::from_millis(10)));
            let reaped = self.take_reaped();
            for &(user_data, result) in &reaped {
                self.complete(user_data, result);
            }
        }
        mem::forget(mem::take(&mut self.slots));
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

/// Releases what an unclaimed result owns: an accepted connection.
fn discard_result(payload: &Payload, result: i32) {
    if matches!(payload, Payload::Accept(_)) && result >= 0 {
        // SAFETY: the kernel just created this descriptor for this request and nothing else refers to it.
        drop(unsafe { File::from_raw_fd(result) });
    }
}

/// Creates a ring with the best features of this kernel: completions run when the thread enters the kernel, without
/// interrupting it.
fn build(entries: u32) -> io::Result<IoUring> {
    let mut best = IoUring::builder();
    best.setup_clamp().setup_cqsize(entries * 8).setup_submit_all();
    best.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag().setup_defer_taskrun();
    let mut coop = IoUring::builder();
    coop.setup_clamp().setup_cqsize(entries * 8).setup_coop_taskrun().setup_taskrun_flag();
    let mut plain = IoUring::builder();
    plain.setup_clamp().setup_cqsize(entries * 8);
    best.build(entries).or_else(|_| coop.build(entries)).or_else(|_| plain.build(entries))
}
