//! Deadlines for requests that may turn out to be late.
//!
//! Nearly every request is answered before its alarm rings, so setting one must cost next to nothing: it is a place in a
//! list, and one task looks at the list now and then, at most once in the shortest time after which anything is late. No
//! alarm rings late for that, since a new one is never due before the next look.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

use sinew_core::io::Io;
use sinew_core::sync::Kick;

struct Set {
    due: u64,
    waker: Waker,
}

/// The alarms of one shard.
#[derive(Default)]
pub struct Deadlines {
    set: RefCell<Vec<Option<Set>>>,
    free: RefCell<Vec<usize>>,
    work: Kick,
    looking: Cell<bool>,
}

impl Deadlines {
    /// An alarm that rings at `due`, once somebody waits for it.
    pub fn at(&self, due: u64) -> Deadline<'_> {
        Deadline { alarms: self, due, place: None }
    }

    /// Rings alarms, for ever, and looks at them once in the shortest time after which anything is late.
    pub async fn run<I: Io>(&self, io: &I, least_ns: impl Fn() -> u64) {
        loop {
            self.work.kicked().await;
            self.looking.set(true);
            let mut now = io.now();
            while let Some(due) = self.ring(now) {
                let look = due.min(now + least_ns());
                io.sleep(look - now).await;
                now = io.now();
            }
            self.looking.set(false);
        }
    }

    fn set(&self, set: Set) -> usize {
        let mut all = self.set.borrow_mut();
        let place = self.free.borrow_mut().pop().unwrap_or_else(|| {
            all.push(None);
            all.len() - 1
        });
        all[place] = Some(set);
        drop(all);
        if !self.looking.get() {
            self.work.kick();
        }
        place
    }

    /// Wakes those whose time has come. When the next is due; none when nobody waits.
    fn ring(&self, now: u64) -> Option<u64> {
        let mut next = None;
        for place in 0..self.set.borrow().len() {
            let due = self.set.borrow()[place].as_ref().map(|set| set.due);
            match due {
                Some(due) if due <= now => {
                    // Its place is given back by the one who is woken.
                    let waker = self.set.borrow()[place].as_ref().map(|set| set.waker.clone());
                    waker.into_iter().for_each(Waker::wake);
                }
                Some(due) => next = Some(next.map_or(due, |next: u64| next.min(due))),
                None => {}
            }
        }
        next
    }
}

/// An alarm; gone when it is dropped.
pub struct Deadline<'a> {
    alarms: &'a Deadlines,
    due: u64,
    place: Option<usize>,
}

impl Deadline<'_> {
    /// Whether it rings; otherwise whoever asks will be woken.
    pub fn poll(&mut self, cx: &Context<'_>, now: u64) -> bool {
        if now >= self.due {
            return true;
        }
        match self.place {
            Some(place) => {
                if let Some(set) = &mut self.alarms.set.borrow_mut()[place] {
                    set.waker.clone_from(cx.waker());
                }
            }
            None => self.place = Some(self.alarms.set(Set { due: self.due, waker: cx.waker().clone() })),
        }
        false
    }
}

impl Drop for Deadline<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            // Bound to a name so that the waker is dropped after the borrow has ended.
            let _set = self.alarms.set.borrow_mut()[place].take();
            self.alarms.free.borrow_mut().push(place);
        }
    }
}
