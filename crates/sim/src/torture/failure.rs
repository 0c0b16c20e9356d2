//! Failures that a run may find, and the log of the last events before.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

use super::plan::Plan;

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The plan cannot be played; nothing is wrong with the engine.
    Impossible,
    /// A broken invariant.
    Panic,
    /// Data that no write explains.
    WrongData,
    /// A wrong answer or error.
    WrongAnswer,
    /// A request without an answer.
    Stuck,
    /// A pool that cannot be opened or closed.
    NotOpened,
    /// Work that does not come to an end when all faults have stopped.
    NotDrained,
    /// Resources held without use.
    Leak,
    /// Errors found by a scrub that should find none.
    ScrubErrors,
    /// An event that is missing, or tells what has not happened.
    WrongEvents,
    /// Two runs of one plan that differ.
    NotRepeated,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Impossible => "impossible plan",
            Kind::Panic => "panic",
            Kind::WrongData => "wrong data",
            Kind::WrongAnswer => "wrong answer",
            Kind::Stuck => "stuck",
            Kind::NotOpened => "not opened",
            Kind::NotDrained => "not drained",
            Kind::Leak => "leak",
            Kind::ScrubErrors => "scrub errors",
            Kind::WrongEvents => "wrong events",
            Kind::NotRepeated => "not repeated",
        }
    }

    /// A failure of this kind.
    pub(crate) fn of(self, what: impl fmt::Display) -> Wrong {
        Wrong { kind: self, what: what.to_string() }
    }
}

/// A failure without its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) kind: Kind,
    pub(crate) what: String,
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The plan.
    pub plan: Box<Plan>,
    /// The kind of failure.
    pub kind: Kind,
    /// A description.
    pub what: String,
    /// The number of the opening.
    pub opening: usize,
    /// Troubles until then.
    pub troubles: u64,
    /// Steps taken until then.
    pub steps: u64,
    /// The last lines of the log.
    pub log: Vec<String>,
}

impl Failure {
    /// Two runs of a plan have different traces.
    pub fn not_repeated(plan: &Plan) -> Failure {
        let what = "two runs have different traces".to_owned();
        let (kind, log) = (Kind::NotRepeated, Vec::new());
        Failure { plan: Box::new(plan.clone()), kind, what, opening: 0, troubles: 0, steps: 0, log }
    }

    /// Whether another failure is the same: of the same kind, and with the same description where that tells failures apart.
    pub fn is_like(&self, other: &Failure) -> bool {
        let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        let told = matches!(self.kind, Kind::Panic | Kind::WrongAnswer);
        self.kind == other.kind && (!told || words(&self.what) == words(&other.what))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seed, opening) = (self.plan.seed, self.opening);
        write!(f, "seed {seed} failed in opening {opening}: {}: {}", self.kind.name(), self.what)
    }
}

impl std::error::Error for Failure {}

/// The last lines of a run's log.
#[derive(Default)]
pub(crate) struct Log {
    lines: RefCell<VecDeque<String>>,
    lines_max: usize,
}

impl Log {
    pub(crate) fn of(lines_max: usize) -> Log {
        Log { lines: RefCell::default(), lines_max }
    }

    /// Adds a line. It is formatted only when lines are kept.
    pub(crate) fn add(&self, now_ns: u64, line: impl FnOnce() -> String) {
        if self.lines_max == 0 {
            return;
        }
        let mut lines = self.lines.borrow_mut();
        if lines.len() == self.lines_max {
            lines.pop_front();
        }
        lines.push_back(format!("{:>12.3} ms  {}", now_ns as f64 / 1e6, line()));
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.borrow().iter().cloned().collect()
    }
}
