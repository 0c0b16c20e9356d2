//! Processor time: on which core each task runs, and for how long that core is busy with it.
//!
//! By default there is one core, on which nothing takes time. With costs, each poll of a task occupies its core, and so does
//! what it does: requests to devices, and telling other cores of something. What a poll does happens when it begins; the next
//! task of its core runs when all of that has taken its time. A core without ready tasks looks for some for a while, and then
//! sleeps. Whatever wakes it then takes a system call and some time.

use std::collections::VecDeque;
use std::ops::Sub;

use async_task::Runnable;
use sinew_core::buf::BLOCK_BYTES;

use crate::faults::OpKind;
use crate::op::Place;

/// The turns of a core, as of a thread of the server: after this number of polls, or when no task is ready, it looks for what
/// has ended; requests of this number of bytes end without giving way before that.
const TURN_POLLS: u64 = 256;
const TURN_BYTES: u64 = 256 << 10;

/// What takes time on a core, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorCosts {
    /// A task runs until it waits for something.
    pub poll_ns: u64,
    /// A request that a shard of another core answers: its messages, and memory that the other core has in its caches.
    pub cross_ns: u64,
    /// A request to a device, from handing it over to taking its result.
    pub request_ns: u64,
    /// Each block of 4 KiB that such a request reads.
    pub read_block_ns: u64,
    /// Each block of 4 KiB that it writes.
    pub write_block_ns: u64,
    /// A task of another core becomes ready: what the core pays that makes it so.
    pub ring_ns: u64,
    /// The same while that core sleeps, in addition.
    pub call_ns: u64,
    /// From waking a core that sleeps until it runs.
    pub wake_ns: u64,
    /// For how long a core without ready tasks looks for some before it sleeps.
    pub spin_ns: u64,
}

/// What a core has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorUsage {
    /// For how long it was busy, without looking for work.
    pub busy_ns: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// Requests to devices.
    pub requests: u64,
    /// Blocks that these requests moved.
    pub blocks: u64,
    /// Tasks of other cores that it made ready.
    pub rings: u64,
    /// Times that it was woken from sleep.
    pub wakes: u64,
}

impl ProcessorCosts {
    /// As measured on one machine; docs/scaling.md says how.
    pub fn measured() -> ProcessorCosts {
        ProcessorCosts {
            poll_ns: 200,
            cross_ns: 480,
            request_ns: 500,
            read_block_ns: 400,
            write_block_ns: 770,
            ring_ns: 50,
            call_ns: 0,
            wake_ns: 28_000,
            spin_ns: 20_000,
        }
    }
}

impl Sub for ProcessorUsage {
    type Output = ProcessorUsage;

    fn sub(self, before: ProcessorUsage) -> ProcessorUsage {
        ProcessorUsage {
            busy_ns: self.busy_ns - before.busy_ns,
            polls: self.polls - before.polls,
            requests: self.requests - before.requests,
            blocks: self.blocks - before.blocks,
            rings: self.rings - before.rings,
            wakes: self.wakes - before.wakes,
        }
    }
}

#[derive(Default)]
struct Processor {
    ready: VecDeque<Runnable>,
    free_at: u64,
    /// What is left of its turn: polls, and bytes of requests that need not give way.
    polls_left: u64,
    inline_left: u64,
    /// No other task was ready when the last one began.
    is_rested: bool,
    usage: ProcessorUsage,
}

impl Processor {
    /// Begins a turn if the last one is over.
    fn begin_turn(&mut self) {
        if self.polls_left == 0 || self.is_rested {
            (self.polls_left, self.inline_left) = (TURN_POLLS, TURN_BYTES);
        }
        self.polls_left -= 1;
        self.is_rested = self.ready.len() == 1;
    }
}

/// The cores of a world and the tasks that are ready on each.
pub(crate) struct Processors {
    cores: Vec<Processor>,
    costs: ProcessorCosts,
    now: u64,
    /// The core whose task is being polled.
    polling: Option<usize>,
}

impl Default for Processors {
    fn default() -> Processors {
        Processors {
            cores: vec![Processor::default()],
            costs: ProcessorCosts::default(),
            now: 0,
            polling: None,
        }
    }
}

impl Processors {
    /// From now on there are at least this many cores, and things take this long.
    pub(crate) fn set(&mut self, cores: usize, costs: ProcessorCosts) {
        if cores > self.cores.len() {
            self.cores.resize_with(cores, Processor::default);
        }
        self.costs = costs;
    }

    pub(crate) fn usage(&self) -> Vec<ProcessorUsage> {
        self.cores.iter().map(|core| core.usage).collect()
    }

    /// The core of the task that is being polled, on which the tasks that it starts run, too; the first one outside of tasks.
    pub(crate) fn current_core(&self) -> usize {
        self.polling.unwrap_or(0)
    }

    /// The task that is being polled makes a request that a shard of another core answers. For both cores, this one takes the time.
    pub(crate) fn cross(&mut self) {
        if let Some(core) = self.polling {
            self.take(core, self.costs.cross_ns);
        }
    }

    /// A task of this core is ready.
    pub(crate) fn wake(&mut self, core: usize, task: Runnable) {
        let (now, costs) = (self.now, self.costs);
        let woken = &mut self.cores[core];
        let sleeps = self.polling != Some(core)
            && woken.ready.is_empty()
            && costs.wake_ns > 0
            && woken.free_at + costs.spin_ns <= now;
        woken.ready.push_back(task);
        if sleeps {
            woken.free_at = now + costs.wake_ns;
            woken.usage.wakes += 1;
        }
        if let Some(waker) = self.polling.filter(|&waker| waker != core) {
            self.cores[waker].usage.rings += 1;
            self.take(waker, costs.ring_ns + if sleeps { costs.call_ns } else { 0 });
        }
    }

    /// A core is busy for this time.
    fn take(&mut self, core: usize, ns: u64) {
        self.cores[core].free_at += ns;
        self.cores[core].usage.busy_ns += ns;
    }

    /// The task that is being polled makes a request to a device. Returns whether it may wait for the end without giving way.
    pub(crate) fn request(&mut self, place: Place) -> bool {
        let Some(core) = self.polling else { return false };
        let (bytes, blocks) = (place.bytes, place.bytes / BLOCK_BYTES as u64);
        let block_ns = match place.kind {
            OpKind::Read => self.costs.read_block_ns,
            _ => self.costs.write_block_ns,
        };
        let processor = &mut self.cores[core];
        processor.usage.requests += 1;
        processor.usage.blocks += blocks;
        let left = processor.inline_left;
        processor.inline_left = left.saturating_sub(bytes.max(BLOCK_BYTES as u64));
        self.take(core, self.costs.request_ns + blocks * block_ns);
        left > 0
    }

    /// What happens now happens at this time.
    pub(crate) fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// Takes the task that is to be polled now, if a core with a ready one is free.
    pub(crate) fn begin_poll(&mut self, now: u64) -> Option<Runnable> {
        self.now = now;
        let free = self.cores.iter().enumerate().filter(|(_, core)| !core.ready.is_empty());
        let (core, processor) = free.min_by_key(|(_, core)| core.free_at)?;
        if processor.free_at > now {
            return None;
        }
        self.polling = Some(core);
        self.cores[core].free_at = now;
        self.cores[core].begin_turn();
        self.cores[core].usage.polls += 1;
        self.take(core, self.costs.poll_ns);
        self.cores[core].ready.pop_front()
    }

    /// The task gives way.
    pub(crate) fn end_poll(&mut self) {
        self.polling = None;
    }

    /// When the next core is free that has a ready task.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.cores.iter().filter(|core| !core.ready.is_empty()).map(|core| core.free_at).min()
    }

    /// Takes any task that is ready.
    pub(crate) fn take_any(&mut self) -> Option<Runnable> {
        self.cores.iter_mut().find_map(|core| core.ready.pop_front())
    }

    pub(crate) fn is_polling(&self) -> bool {
        self.polling.is_some()
    }
}
