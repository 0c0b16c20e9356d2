//! The work that waits for dies: a table of jobs with a list of free entries, and queues through that table.

use super::mapping::NONE;

/// Marks a request number as that of a stripe whose parity needs a read.
pub(super) const PARITY_READ: u32 = 1 << 31;

/// Marks a request number as that of a page of the mapping table that is read.
pub(super) const TABLE_READ: u32 = 1 << 30;

/// A unit to be read or programmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// The unit.
    pub(super) unit: u32,
    /// Granules to be read, or granules of data in a unit to be programmed.
    pub(super) granules: u32,
    /// The request that waits for the job, or [`NONE`], or a stripe with the mark [`PARITY_READ`],
    /// or a page of the mapping table with the mark [`TABLE_READ`].
    pub(super) request: u32,
    /// The flush epoch of a program; no meaning for a read.
    pub(super) epoch: u32,
}

/// A command of the layers above that has ended. Small enough to be returned in registers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Finished {
    /// The data of one read of a request has left the flash.
    Read { request: u32 },
    /// A unit of the host's data is on flash: the job [`Dies::take_program`](super::dies::Dies::take_program) takes.
    Program { job: u32 },
}

/// A job and the number of the job after it, in its queue or in the list of free entries.
#[derive(Clone, Copy, Debug)]
struct Entry {
    job: Job,
    next: u32,
}

/// All jobs under way; a job is named by its place in the table.
#[derive(Clone, Debug)]
pub(super) struct Jobs {
    entries: Vec<Entry>,
    first_free: u32,
}

impl Jobs {
    pub(super) fn new() -> Jobs {
        Jobs { entries: Vec::new(), first_free: NONE }
    }

    /// Enters a job; returns its number.
    #[inline]
    pub(super) fn add(&mut self, job: Job) -> u32 {
        let entry = Entry { job, next: NONE };
        let id = self.first_free;
        if id == NONE {
            self.entries.push(entry);
            return self.entries.len() as u32 - 1;
        }
        self.first_free = self.entries[id as usize].next;
        self.entries[id as usize] = entry;
        id
    }

    /// Removes a job that is in no queue.
    #[inline]
    pub(super) fn take(&mut self, id: u32) -> Job {
        let entry = &mut self.entries[id as usize];
        entry.next = self.first_free;
        self.first_free = id;
        entry.job
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> &Job {
        &self.entries[id as usize].job
    }
}

/// Jobs in the order of their arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    first: u32,
    last: u32,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue { first: NONE, last: NONE };

    #[inline]
    pub(super) fn push(&mut self, jobs: &mut Jobs, id: u32) {
        jobs.entries[id as usize].next = NONE;
        if self.first == NONE {
            self.first = id;
        } else {
            jobs.entries[self.last as usize].next = id;
        }
        self.last = id;
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    #[inline]
    pub(super) fn pop(&mut self, jobs: &Jobs) -> Option<u32> {
        let id = self.first;
        if id == NONE {
            return None;
        }
        self.first = jobs.entries[id as usize].next;
        Some(id)
    }
}
