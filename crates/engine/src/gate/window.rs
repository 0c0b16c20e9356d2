//! How much work of backlogged volumes may be in the shard at the same time: as little as other volumes need to be served almost
//! as if alone, as much as the members need to be busy.
//!
//! Two windows are changed by every request that ends, so that each settles where requests are as late as they may be:
//!
//! - The *knee window* looks at the requests of backlogged volumes. On average they may take four times as long as undisturbed:
//!   beyond that members hardly get more done, and requests would wait in their queues, where no share holds. While quiet
//!   volumes are active, it is one and a half times: backlogged volumes keep most of their throughput, and much of what others
//!   would wait for is in front of the gate.
//! - The *tail window* looks at the requests of quiet volumes: one in a hundred may take longer than one and a half times what
//!   the slowest ones take undisturbed. It is for pools that prefer the latency of quiet volumes to all throughput of others
//!   (`Shares::Latency`), and counts only while there are such volumes; the smaller window of both is then in force.
//!
//! A window that is not in force does not grow: nothing tells what more work would do.
//!
//! A volume is quiet if it keeps to its share of the least window. One that only keeps to its share of the present window changes
//! neither: by making the window smaller it would become backlogged.
//!
//! What requests take undisturbed is learned for each kind and size, from those beside which at most the least window is in the
//! shard when they enter and when they end: their smoothed mean and deviation (as Jacobson and Karels estimate round trips, 1988).
//! While it is not known, the window shrinks until requests are undisturbed. So it does if they take longer whatever is sent, as
//! those of a drive whose buffer is full: then what they take now is learned, and the window grows again. The least window is one
//! small request for each member.
//!
//! Bursts of volumes that are not backlogged make requests late, too. Less work of backlogged ones does not change that, so
//! requests of these may also take one and a half times what they take at the least window, beside whatever others do. If all
//! of them were beside more for a while, the window is closed to its least size for a moment (as BBR does, 2016), to learn both
//! anew.
//!
//! A request is *overdue* if it takes many times as long as others of its class lately, disturbed or not. Where all are late, as on
//! drives whose buffers are full, the mean that tells so follows, and none is overdue for long.

use sinew_core::mutation::{self, Mutation};

/// The least window for each member: about the cost of a read of 16 KiB.
const LEAST: u64 = 32 << 10;
/// The largest window, in multiples of the least one.
const MOST: u64 = 8192;
/// A request that is late makes the tail window smaller by this part of it, and one that is not larger by a 99th of that.
const TAIL_STEP: u64 = 8;
const TAIL_STEP_UP: u64 = TAIL_STEP * 99;
/// What requests of backlogged volumes may take on average, in percent of what they take undisturbed,
const KNEE_PERCENT: u64 = 400;
/// and while quiet volumes are active; of what they take at the least window, at any time.
const KNEE_BESIDE_QUIET_PERCENT: u64 = 150;
const KNEE_AT_LEAST_PERCENT: u64 = 150;
/// A request that ends changes the knee window by at most this part of its cost if it was early, and if it was late by as much for
/// each time that it took longer than it may, up to [`KNEE_LATE_MOST`] times. All requests that are under way at a time change it so
/// by about this part: their latencies tell of the window as it was when they began.
const KNEE_STEP: f64 = 8.0;
const KNEE_LATE_MOST: f64 = 16.0;
/// For how long a volume counts as quiet after its last request.
const QUIET_NS: u64 = 250_000_000;
/// After which time without a request of a backlogged volume at the least window it is closed to that size, and for how long.
const PROBE_EVERY_NS: u64 = 5_000_000_000;
const PROBE_NS: u64 = 50_000_000;
/// Requests after which a mean counts, and of which a smoothed mean tells.
const SETTLED: u64 = 16;
const SMOOTHED_OVER: u64 = 64;
/// A request is overdue if it is in the shard for this many times as long as those of its class lately, or for
/// [`OVERDUE_UNKNOWN_NS`] while that is not known.
const OVERDUE: u64 = 32;
const OVERDUE_UNKNOWN_NS: u64 = 100_000_000;
/// As which multiple of what others take an overdue request counts for that, at most.
const LATELY_MOST: u64 = 4;
/// Classes of requests: reads and writes, by powers of two of their blocks.
const SIZES: usize = 16;

/// Requests that take about the same time when undisturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(u8);

impl Class {
    pub(super) fn of(is_write: bool, blocks: u64) -> Class {
        let size = blocks.max(1).ilog2().min(SIZES as u32 - 1) as u8;
        Class(if is_write { SIZES as u8 + size } else { size })
    }

    pub(super) fn is_write(self) -> bool {
        usize::from(self.0) >= SIZES
    }
}

/// A mean of which a new value is one part in `of`.
fn smoothed(mean: u64, new: u64, of: u64) -> u64 {
    (mean * (of - 1) + new) / of
}

/// Latencies of requests of a class: the mean of the first ones, then a smoothed mean, and their deviation from it.
#[derive(Clone, Copy, Debug, Default)]
struct Smoothed {
    seen: u64,
    mean_ns: u64,
    deviation_ns: u64,
}

impl Smoothed {
    fn note(&mut self, ns: u64) {
        self.seen += 1;
        let of = self.seen.min(SMOOTHED_OVER);
        self.deviation_ns = smoothed(self.deviation_ns, ns.abs_diff(self.mean_ns), of);
        self.mean_ns = smoothed(self.mean_ns, ns, of);
    }

    fn is_settled(&self) -> bool {
        self.seen >= SETTLED
    }

    fn percent_ns(&self, percent: u64) -> u64 {
        self.mean_ns * percent / 100
    }
}

/// What requests of a class take beside little work.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    undisturbed: Smoothed,
    /// Those of backlogged volumes, at the least window.
    at_least: Smoothed,
}

impl Known {
    /// Beyond this, a request of a quiet volume is late.
    fn tail_ns(&self) -> u64 {
        (self.undisturbed.mean_ns + 4 * self.undisturbed.deviation_ns) * 3 / 2
    }

    /// What a request of a backlogged volume may take on average.
    fn knee_ns(&self, beside_quiet: bool) -> u64 {
        let percent = if beside_quiet { KNEE_BESIDE_QUIET_PERCENT } else { KNEE_PERCENT };
        let undisturbed = self.undisturbed.percent_ns(percent);
        if !self.at_least.is_settled() || mutation::on(Mutation::BlameBacklogged) {
            return undisturbed;
        }
        undisturbed.max(self.at_least.percent_ns(KNEE_AT_LEAST_PERCENT))
    }
}

/// What the requests of a class take lately, disturbed or not: a smoothed mean, in which few slow ones weigh little.
#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    mean_ns: u64,
}

impl Lately {
    fn note(&mut self, ns: u64) {
        if self.mean_ns == 0 {
            self.mean_ns = ns;
        }
        let counts = ns.min(LATELY_MOST * self.mean_ns);
        self.mean_ns = smoothed(self.mean_ns, counts, SMOOTHED_OVER).max(1);
    }
}

/// What was in the shard beside a request: the more, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Beside {
    /// No more than the least window: it is undisturbed.
    Little,
    /// No more than that of backlogged volumes.
    Others,
    /// More.
    Much,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) class: Class,
    pub(super) cost: u64,
    /// How long it took in the shard.
    pub(super) ns: u64,
    pub(super) of: Demand,
    /// When it entered or when it ended, whichever was more.
    pub(super) beside: Beside,
}

/// What a volume wanted when a request of it entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// No more than its share of the least window.
    Quiet,
    /// No more than its share of the window.
    Below,
    /// More than that.
    Backlogged,
}

/// The window of a shard.
#[derive(Debug)]
pub(super) struct Window {
    least: u64,
    most: u64,
    knee: u64,
    tail: u64,
    uses_tail: bool,
    known: [Known; 2 * SIZES],
    lately: [Lately; 2 * SIZES],
    /// Until when quiet volumes count as active.
    quiet_until: u64,
    /// When the window is to be closed to its least size, and until when it is.
    probe_at: u64,
    probe_until: u64,
}

impl Window {
    /// The window of a shard whose part of the work is that of this number of members.
    pub(super) fn new(members: u64) -> Window {
        let least = members.max(1) * LEAST;
        Window {
            least,
            most: least * MOST,
            knee: least,
            tail: least,
            uses_tail: false,
            known: [Known::default(); 2 * SIZES],
            lately: [Lately::default(); 2 * SIZES],
            quiet_until: 0,
            probe_at: 0,
            probe_until: 0,
        }
    }

    /// Whether the tail window counts.
    pub(super) fn set_tail(&mut self, uses_tail: bool) {
        self.uses_tail = uses_tail;
    }

    /// Whether the tail window counts.
    pub(super) fn uses_tail(&self) -> bool {
        self.uses_tail
    }

    /// The least that [`Window::size`] may be.
    pub(super) fn least(&self) -> u64 {
        self.least
    }

    /// The work that may be under way.
    pub(super) fn size(&self, now: u64) -> u64 {
        if now < self.probe_until {
            self.least
        } else if self.uses_tail && now < self.quiet_until {
            self.tail.min(self.knee)
        } else {
            self.knee
        }
    }

    /// For how long a request may be in the shard before it is overdue.
    pub(super) fn overdue_ns(&self, class: Class) -> u64 {
        match self.lately[usize::from(class.0)].mean_ns {
            0 => OVERDUE_UNKNOWN_NS,
            lately => lately * OVERDUE,
        }
    }

    /// Notes a request that is overdue after this time.
    pub(super) fn note_overdue(&mut self, class: Class, ns: u64) {
        self.lately[usize::from(class.0)].note(ns);
    }

    /// Notes a request that ends.
    pub(super) fn note(&mut self, now: u64, ended: Ended) {
        let Ended { class, cost, ns, of, beside } = ended;
        self.lately[usize::from(class.0)].note(ns);
        let known = &mut self.known[usize::from(class.0)];
        if beside == Beside::Little {
            known.undisturbed.note(ns);
        }
        if of == Demand::Backlogged {
            if beside <= Beside::Others {
                known.at_least.note(ns);
                self.probe_at = now + PROBE_EVERY_NS;
            } else if now >= self.probe_at {
                self.probe_at = now + PROBE_EVERY_NS;
                self.probe_until = now + PROBE_NS;
            }
        }
        if of == Demand::Quiet {
            self.quiet_until = now + QUIET_NS;
        }
        let known = *known;
        match (of, known.undisturbed.is_settled()) {
            (Demand::Quiet, true) => self.move_tail(now, ns > known.tail_ns()),
            (Demand::Backlogged, true) => {
                let may_take = known.knee_ns(now < self.quiet_until);
                self.move_knee(now, cost, (ns as f64 / may_take as f64 - 1.0).min(KNEE_LATE_MOST));
            }
            (Demand::Backlogged, false) => self.move_knee(now, cost, 1.0),
            (Demand::Below, _) | (Demand::Quiet, false) => {}
        }
    }

    fn move_tail(&mut self, now: u64, is_late: bool) {
        if is_late {
            self.tail -= self.tail / TAIL_STEP;
        } else if self.size(now) >= self.tail {
            self.tail += self.tail / TAIL_STEP_UP;
        }
        self.tail = self.tail.clamp(self.least, self.most);
    }

    /// `late` is by how much the request was late, in multiples of what it may take.
    fn move_knee(&mut self, now: u64, cost: u64, late: f64) {
        if late > 0.0 || self.size(now) >= self.knee {
            let change = late * cost.min(self.knee) as f64 / KNEE_STEP;
            self.knee = (self.knee as f64 - change) as u64;
        }
        self.knee = self.knee.clamp(self.least, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const LEAST_OF_8: u64 = 8 * LEAST;
    /// A read of a block of a quiet volume.
    const READ: Ended =
        Ended { class: Class(0), cost: 20 << 10, ns: MS / 10, of: Demand::Quiet, beside: Beside::Much };

    /// Requests of a quiet volume, one in 0.1 ms, of which one in `late_every` takes ten times as long.
    fn quiet(window: &mut Window, from: u64, requests: u64, late_every: u64) {
        for i in 1..=requests {
            let ns = if i % late_every == 0 { MS } else { MS / 10 };
            window.note(from + i * MS / 10, Ended { ns, ..READ });
        }
    }

    #[test]
    fn requests_are_classed_by_kind_and_size() {
        assert_ne!(Class::of(false, 1), Class::of(true, 1));
        assert_ne!(Class::of(false, 1), Class::of(false, 2));
        assert_eq!(Class::of(true, 33), Class::of(true, 63));
        assert_eq!(Class::of(true, 0), Class::of(true, 1));
        assert_eq!(Class::of(true, u64::MAX), Class::of(true, 1 << 15));
    }

    /// What undisturbed requests of a class take is known.
    fn learn(window: &mut Window, class: Class, ns: u64) {
        for _ in 0..SETTLED {
            window.known[usize::from(class.0)].undisturbed.note(ns);
        }
    }

    fn of_latency() -> Window {
        let mut window = Window::new(8);
        window.set_tail(true);
        learn(&mut window, READ.class, READ.ns);
        window.knee = window.most;
        window
    }

    /// Members that work on four requests of 64 KiB of backlogged volumes at a time: more only wait. Returns how many the
    /// window lets in.
    fn backlogged(window: &mut Window, from: u64) -> u64 {
        let (class, cost) = (Class::of(false, 16), 64 << 10);
        learn(window, class, MS);
        for i in 0..5000u64 {
            let now = from + i * MS / 10;
            let inside = (window.size(now) / cost).clamp(1, 64);
            let ns = inside.max(4) * MS / 4;
            let ended = Ended { class, cost, ns, of: Demand::Backlogged, beside: Beside::Much };
            window.note(now, ended);
            if window.quiet_until > 0 {
                quiet(window, now, 1, u64::MAX);
            }
        }
        window.size(from + 500 * MS) / cost
    }

    #[test]
    fn the_tail_grows_while_nothing_is_late_and_shrinks_to_the_least() {
        let mut window = of_latency();
        quiet(&mut window, 0, 20_000, u64::MAX);
        let wide = window.size(2000 * MS);
        assert!(wide > 8 * LEAST_OF_8, "{wide}");
        quiet(&mut window, 2000 * MS, 2000, 10);
        assert_eq!(window.size(2200 * MS), LEAST_OF_8);
        // Beyond one late request in a hundred it shrinks, below that it grows.
        quiet(&mut window, 2200 * MS, 10_000, 300);
        assert!(window.size(3200 * MS) > 2 * LEAST_OF_8);
    }

    #[test]
    fn it_follows_the_knee_while_volumes_are_backlogged() {
        let inside = backlogged(&mut Window::new(8), 0);
        assert!((12..=20).contains(&inside), "{inside}");
    }

    #[test]
    fn less_is_under_way_beside_quiet_volumes() {
        let mut window = Window::new(8);
        quiet(&mut window, 0, 100, u64::MAX);
        let inside = backlogged(&mut window, 10 * MS);
        assert!((5..=8).contains(&inside), "{inside}");
    }

    #[test]
    fn the_tail_counts_only_beside_quiet_volumes_and_where_it_is_wanted() {
        let mut window = of_latency();
        window.knee = 100 * LEAST_OF_8;
        quiet(&mut window, 0, 1000, u64::MAX);
        quiet(&mut window, 100 * MS, 1000, 5);
        assert_eq!(window.size(200 * MS), LEAST_OF_8);
        assert_eq!(window.size(200 * MS + QUIET_NS), 100 * LEAST_OF_8);
        window.set_tail(false);
        assert_eq!(window.size(200 * MS), 100 * LEAST_OF_8);
    }

    #[test]
    fn a_window_that_is_not_in_force_does_not_grow() {
        let mut window = of_latency();
        window.knee = 10 * LEAST_OF_8;
        quiet(&mut window, 0, 100, u64::MAX);
        let early = Ended { ns: MS / 20, of: Demand::Backlogged, ..READ };
        window.note(0, early);
        for _ in 0..100 {
            window.note(100 * MS, early);
        }
        assert!(window.tail < window.knee && window.knee == 10 * LEAST_OF_8);
        window.set_tail(false);
        window.note(100 * MS, early);
        assert!(window.knee > 10 * LEAST_OF_8);
    }

    #[test]
    fn it_grows_again_when_members_have_become_slower() {
        let mut window = Window::new(8);
        let class = Class::of(true, 1);
        learn(&mut window, class, MS / 10);
        window.knee = 10 * LEAST_OF_8;
        let mut after_a_second = |from: u64, beside| {
            for i in 0..1000 {
                let ended = Ended { class, cost: 48 << 10, ns: MS, of: Demand::Backlogged, beside };
                window.note((from + i) * MS, ended);
            }
            window.knee
        };
        assert_eq!(after_a_second(0, Beside::Much), LEAST_OF_8);
        assert!(after_a_second(1000, Beside::Little) > 10 * LEAST_OF_8);
    }

    #[test]
    fn it_shrinks_until_undisturbed_requests_are_known() {
        let mut window = Window::new(8);
        window.knee = window.most;
        let mut note = |beside| {
            let class = Class::of(false, 4);
            window.note(0, Ended { class, cost: 32 << 10, ns: MS, of: Demand::Backlogged, beside });
            window.knee
        };
        let shrinks = (0..1_000_000).map(|_| note(Beside::Much)).take_while(|&knee| knee > LEAST_OF_8);
        assert!(shrinks.is_sorted_by(|a, b| a > b));
        let least = (1..SETTLED).map(|_| note(Beside::Little)).last();
        assert_eq!(least, Some(LEAST_OF_8));
        assert!(note(Beside::Little) > LEAST_OF_8);
    }

    #[test]
    fn a_request_is_overdue_if_it_takes_much_longer_than_others() {
        let mut window = Window::new(8);
        assert_eq!(window.overdue_ns(READ.class), OVERDUE_UNKNOWN_NS);
        quiet(&mut window, 0, 1, u64::MAX);
        assert_eq!(window.overdue_ns(READ.class), OVERDUE * READ.ns);
        // One in twenty: hardly any change.
        for _ in 0..100 {
            quiet(&mut window, 0, 19, u64::MAX);
            window.note_overdue(READ.class, OVERDUE * READ.ns);
        }
        assert!(window.overdue_ns(READ.class) < 2 * OVERDUE * READ.ns);
        // All of them: soon it is what a request takes.
        let late = OVERDUE * READ.ns;
        (0..200).for_each(|_| window.note_overdue(READ.class, late));
        let overdue_ns = window.overdue_ns(READ.class);
        assert!((16 * late..=OVERDUE * late).contains(&overdue_ns), "{overdue_ns}");
    }

    #[test]
    fn bursts_of_others_are_not_its_fault() {
        let mut window = Window::new(8);
        learn(&mut window, READ.class, READ.ns);
        quiet(&mut window, 0, 1, u64::MAX);
        let mut after = |beside, ns, requests: u64| {
            for _ in 0..requests {
                window.note(MS, Ended { ns, of: Demand::Backlogged, beside, ..READ });
            }
            window.knee
        };
        assert_eq!(after(Beside::Others, 10 * READ.ns, SETTLED - 1), LEAST_OF_8);
        assert!(after(Beside::Others, 10 * READ.ns, 1000) > 2 * LEAST_OF_8);
        // Nor are requests early that take as long beside more, and later ones are late.
        let grown = after(Beside::Much, 14 * READ.ns, 100);
        assert!(grown > 2 * LEAST_OF_8 && after(Beside::Much, 20 * READ.ns, 10_000) == LEAST_OF_8);
        // Without bursts, the least window is fast again.
        after(Beside::Others, READ.ns, 10 * SMOOTHED_OVER);
        assert!(after(Beside::Much, 2 * READ.ns, 10_000) == LEAST_OF_8);
    }

    #[test]
    fn it_closes_for_a_moment_if_backlogged_volumes_had_more_than_the_least_for_a_while() {
        let mut window = Window::new(8);
        learn(&mut window, READ.class, READ.ns);
        let mut sizes_after = |at: u64, beside| {
            window.knee = window.most;
            window.note(at * MS, Ended { of: Demand::Backlogged, beside, ..READ });
            [1, 60].map(|ms| window.size((at + ms) * MS) > LEAST_OF_8)
        };
        assert_eq!(sizes_after(0, Beside::Others), [true, true]);
        assert_eq!(sizes_after(4999, Beside::Much), [true, true]);
        assert_eq!(sizes_after(5000, Beside::Much), [false, true]);
        assert_eq!(sizes_after(9000, Beside::Little), [true, true]);
        assert_eq!(sizes_after(13_000, Beside::Much), [true, true]);
        assert_eq!(sizes_after(14_000, Beside::Much), [false, true]);
        quiet(&mut window, 20_000 * MS, 1, u64::MAX);
        assert!(window.size(20_001 * MS) > LEAST_OF_8);
    }
}
