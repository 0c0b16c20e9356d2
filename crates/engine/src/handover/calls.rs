//! Calls whose answers are awaited.

use std::mem;
use std::task::{Context, Poll, Waker};

use sinew_core::volume::VolumeError;
use sinew_members::message::Reply;
use slab::Slab;

/// The result of a call.
pub(super) type CallResult = Result<Reply, VolumeError>;

/// A call under way.
enum Call {
    /// It goes to this thread, and wakes this task once it is answered.
    Waits(usize, Option<Waker>),
    Answered(CallResult),
    /// It goes to this thread. Its answer is wanted no more.
    Forgotten(usize),
}

/// The calls of a thread, by their numbers, which are used again.
#[derive(Default)]
pub(super) struct Calls(Slab<Call>);

impl Calls {
    /// The number of a new call to a thread.
    pub(super) fn begin(&mut self, thread: usize) -> u32 {
        self.0.insert(Call::Waits(thread, None)) as u32
    }

    /// Takes the answer of a call, which ends it, or leaves a waker for it.
    pub(super) fn poll(&mut self, number: u32, cx: &Context<'_>) -> Poll<CallResult> {
        if let Call::Waits(_, waker) = &mut self.0[number as usize] {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match self.0.remove(number as usize) {
            Call::Answered(answer) => Poll::Ready(answer),
            Call::Waits(..) | Call::Forgotten(_) => unreachable!("nothing polls a call that is forgotten"),
        }
    }

    /// Delivers an answer. Returns the waker of the task that waits for it.
    pub(super) fn answer(&mut self, number: u32, answer: CallResult) -> Option<Waker> {
        match mem::replace(&mut self.0[number as usize], Call::Answered(answer)) {
            Call::Waits(_, waker) => waker,
            Call::Forgotten(_) => {
                self.0.remove(number as usize);
                None
            }
            Call::Answered(_) => unreachable!("a call is answered once"),
        }
    }

    /// No task waits for the answer of a call any more.
    pub(super) fn forget(&mut self, number: u32) {
        match &mut self.0[number as usize] {
            Call::Answered(_) => drop(self.0.remove(number as usize)),
            call => {
                if let Call::Waits(thread, _) = *call {
                    *call = Call::Forgotten(thread);
                }
            }
        }
    }

    /// The calls to a thread that are not answered.
    pub(super) fn unanswered(&self, by: usize) -> Vec<u32> {
        let is_open =
            |call: &Call| matches!(call, Call::Waits(thread, _) | Call::Forgotten(thread) if *thread == by);
        self.0.iter().filter(|(_, call)| is_open(call)).map(|(number, _)| number as u32).collect()
    }

    /// Calls that have not ended.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}
