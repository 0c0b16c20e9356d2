//! Decides which request may be issued now. No I/O, clock or thread: the caller asks, issues, and reports completions.
//!
//! ```text
//! loop {
//!     match replay.next(now)? {
//!         Next::Issue(issue) => start issue.request; keep `issue` until it completes
//!         Next::At(time) => sleep until then, or until something completes
//!         Next::AfterCompletion => wait until something completes
//!         Next::Done => break
//!     }
//!     for each that completed: recorder.record(&replay.complete(issue, now, ok))
//! }
//! ```

use serde::{Deserialize, Serialize};

use crate::{Request, Result};

/// How requests are paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pace {
    /// Open loop: each at its time, whether or not earlier ones are done.
    Timed {
        /// The most in flight; requests that are due then wait, and their latency counts from when they were due.
        #[serde(default)]
        in_flight_max: Option<u32>,
    },
    /// Closed loop: a constant number of requests in flight; their times are ignored.
    Closed {
        /// How many.
        depth: u32,
    },
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Issue this; ask again at once.
    Issue(Issue),
    /// Nothing before this time, unless something completes.
    At(u64),
    /// Nothing before something completes.
    AfterCompletion,
    /// All is issued and completed.
    Done,
}

/// A request on its way. Give it back with [`Replay::complete`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request that never completes blocks the replay"]
pub struct Issue {
    /// Counts up from 0.
    pub number: u64,
    /// What to do.
    pub request: Request,
    /// When it should have been issued.
    pub due_ns: u64,
    /// When it was issued.
    pub issued_ns: u64,
}

impl Issue {
    /// How long after it was due it was issued.
    pub fn late_ns(&self) -> u64 {
        self.issued_ns.saturating_sub(self.due_ns)
    }
}

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// What was on its way.
    pub issue: Issue,
    /// When it completed.
    pub done_ns: u64,
    /// Whether it succeeded.
    pub ok: bool,
}

impl Done {
    /// From when it was due. In an open loop this includes waiting for others, so a stall is seen by every request that
    /// falls into it and not only by the one that was in flight (there is no "coordinated omission").
    pub fn latency_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.issue.due_ns)
    }

    /// From when it was issued.
    pub fn service_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.issue.issued_ns)
    }
}

/// The pacing of one stream.
pub struct Replay<S> {
    stream: S,
    pace: Pace,
    start_ns: u64,
    end_ns: u64,
    head: Option<Request>,
    ended: bool,
    in_flight: u32,
    issued: u64,
}

impl<S: Iterator<Item = Result<Request>>> Replay<S> {
    /// Paces a stream whose first request is due at `start_ns`.
    ///
    /// # Panics
    ///
    /// If no request may be in flight.
    pub fn new(stream: S, pace: Pace, start_ns: u64) -> Replay<S> {
        let limit = match pace {
            Pace::Timed { in_flight_max } => in_flight_max,
            Pace::Closed { depth } => Some(depth),
        };
        assert!(limit != Some(0), "no request may be in flight");
        let end_ns = u64::MAX;
        Replay { stream, pace, start_ns, end_ns, head: None, ended: false, in_flight: 0, issued: 0 }
    }

    /// Issues nothing from `end_ns` on; for streams that do not end.
    #[must_use]
    pub fn until(self, end_ns: u64) -> Replay<S> {
        Replay { end_ns, ..self }
    }

    /// As [`Replay::until`], of a stream that is being paced.
    pub fn end_at(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
    }

    /// Issues nothing more.
    pub fn stop(&mut self) {
        (self.head, self.ended) = (None, true);
    }

    /// Requests issued and not completed.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Requests issued.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// What to do at `now_ns`, which never goes back. After an error of the stream nothing more is issued.
    ///
    /// # Errors
    /// The error of the stream of requests.
    pub fn next(&mut self, now_ns: u64) -> Result<Next> {
        self.peek(now_ns)?;
        let Some(request) = self.head else {
            return Ok(if self.in_flight == 0 { Next::Done } else { Next::AfterCompletion });
        };
        let (due_ns, limit) = match self.pace {
            Pace::Timed { in_flight_max } => {
                (self.start_ns.saturating_add(request.at_ns), in_flight_max.unwrap_or(u32::MAX))
            }
            Pace::Closed { depth } => (now_ns.max(self.start_ns), depth),
        };
        if due_ns >= self.end_ns {
            self.stop();
            return self.next(now_ns);
        }
        if self.in_flight >= limit {
            return Ok(Next::AfterCompletion);
        }
        if due_ns > now_ns {
            return Ok(Next::At(due_ns));
        }
        let number = self.issued;
        self.head = None;
        self.issued += 1;
        self.in_flight += 1;
        Ok(Next::Issue(Issue { number, request, due_ns, issued_ns: now_ns }))
    }

    /// Takes back what completed at `now_ns`.
    pub fn complete(&mut self, issue: Issue, now_ns: u64, ok: bool) -> Done {
        assert!(self.in_flight > 0, "request {} completed twice", issue.number);
        self.in_flight -= 1;
        Done { issue, done_ns: now_ns, ok }
    }

    /// Holds the next request, if there is one.
    fn peek(&mut self, now_ns: u64) -> Result<()> {
        if now_ns >= self.end_ns {
            self.stop();
        }
        if self.head.is_none() && !self.ended {
            match self.stream.next().transpose() {
                Ok(next) => (self.head, self.ended) = (next, next.is_none()),
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BinaryHeap;

    use super::*;
    use crate::{Error, Kind};

    fn requests(times: &[u64]) -> Vec<Result<Request>> {
        let make = |&at_ns: &u64| Ok(Request { at_ns, offset: 0, len: 4096, volume: 0, kind: Kind::Read });
        times.iter().map(make).collect()
    }

    /// Runs to the end against a device of fixed latency without a queue; gives (due, issued, done) of each.
    fn run(times: &[u64], pace: Pace, latency: u64, end: u64) -> Vec<(u64, u64, u64)> {
        let mut replay = Replay::new(requests(times).into_iter(), pace, 1000).until(end);
        let mut now = 0;
        let mut flying: BinaryHeap<(std::cmp::Reverse<u64>, u64)> = BinaryHeap::new();
        let mut issues = std::collections::BTreeMap::new();
        let mut seen = Vec::new();
        loop {
            let next = replay.next(now).expect("no errors");
            let wake = match next {
                Next::Issue(issue) => {
                    flying.push((std::cmp::Reverse(now + latency), issue.number));
                    issues.insert(issue.number, issue);
                    continue;
                }
                Next::At(time) => time,
                Next::AfterCompletion => u64::MAX,
                Next::Done => return seen,
            };
            match flying.peek() {
                Some((std::cmp::Reverse(done), number)) if *done <= wake => {
                    now = *done;
                    let issue = issues.remove(number).expect("in flight");
                    flying.pop();
                    let done = replay.complete(issue, now, true);
                    seen.push((done.issue.due_ns, done.issue.issued_ns, done.done_ns));
                }
                _ => now = wake,
            }
        }
    }

    #[test]
    fn an_open_loop_keeps_to_the_times() {
        let open = Pace::Timed { in_flight_max: None };
        let seen = run(&[0, 10, 10, 500], open, 100, u64::MAX);
        assert_eq!(seen, [(1000, 1000, 1100), (1010, 1010, 1110), (1010, 1010, 1110), (1500, 1500, 1600)]);
    }

    #[test]
    fn waiting_for_others_counts_as_latency() {
        let one = Pace::Timed { in_flight_max: Some(1) };
        let seen = run(&[0, 10, 20], one, 100, u64::MAX);
        assert_eq!(seen, [(1000, 1000, 1100), (1010, 1100, 1200), (1020, 1200, 1300)]);
    }

    #[test]
    fn a_closed_loop_keeps_its_depth() {
        let seen = run(&[0, 9999, 0, 0, 0], Pace::Closed { depth: 2 }, 100, u64::MAX);
        let issued: Vec<u64> = seen.iter().map(|s| s.1).collect();
        assert_eq!(issued, [1000, 1000, 1100, 1100, 1200]);
    }

    #[test]
    fn nothing_is_issued_after_the_end() {
        assert_eq!(run(&[0; 100], Pace::Closed { depth: 1 }, 100, 1250).len(), 3);
        assert_eq!(run(&[0, 100, 300], Pace::Timed { in_flight_max: None }, 10, 1300).len(), 2);
    }

    #[test]
    fn nothing_is_issued_after_a_stop() {
        let mut replay = Replay::new(requests(&[0, 0, 0]).into_iter(), Pace::Closed { depth: 2 }, 0);
        let Ok(Next::Issue(issue)) = replay.next(0) else { panic!("the first is due") };
        replay.stop();
        assert_eq!(replay.next(0).expect("no errors"), Next::AfterCompletion);
        let _ = replay.complete(issue, 5, true);
        assert_eq!(replay.next(5).expect("no errors"), Next::Done);
    }

    #[test]
    fn an_error_of_the_stream_is_handed_on_once() {
        let broken = vec![Err(Error::setting("x", "y"))];
        let mut replay = Replay::new(broken.into_iter(), Pace::Closed { depth: 1 }, 0);
        assert!(replay.next(0).is_err());
        assert_eq!(replay.next(0).expect("ended"), Next::Done);
    }
}
