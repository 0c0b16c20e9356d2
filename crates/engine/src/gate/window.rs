//! How much work of backlogged volumes may be in the shard at the same time: as little as other volumes need to be served almost
//! as if alone, as much as the members need to be busy.
//!
//! Two windows are changed by every request that ends, so that each settles where requests are as late as they may be:
//!
//! - The *knee window* looks at the requests of backlogged volumes. On average they may take four times as long as undisturbed:
//!   beyond that members hardly get more done, and requests would wait in their queues, where no share holds. While quiet
//!   volumes are active, it is one and a half times: backlogged ones keep most of their throughput, and much of what others would
//!   wait for is in front of the gate.
//! - The *tail window* looks at the requests of quiet volumes: one in a hundred may take longer than one and a half times what
//!   the slowest ones take undisturbed. It is for pools that prefer the latency of quiet volumes to all throughput of others
//!   (`Shares::Latency`), and counts only while there are such volumes; the smaller window of both is then in force.
//!
//! A window that is not in force does not grow: nothing tells what more work would do.
//!
//! A volume is quiet if it keeps to its share of the least window. One that only keeps to its share of the present window changes
//! neither: by making the window smaller it would become backlogged.
//!
//! What requests take undisturbed is learned for each kind and size: the lowest smoothed mean that was ever seen, with the smoothed
//! deviation at that time (as Jacobson and Karels estimate round trips, 1988). It rises slowly, and from time to time the
//! window is closed to its least size for a moment, so that drives that have become slower are seen (as BBR does, 2016). The least
//! window is one small request for each member.

/// The least window for each member: about the cost of a read of 16 KiB.
const LEAST: u64 = 32 << 10;
/// The largest window, in multiples of the least one.
const MOST: u64 = 8192;
/// A request that is late makes the tail window smaller by this part of it, and one that is not larger by a 99th of that.
const TAIL_STEP: u64 = 8;
const TAIL_STEP_UP: u64 = TAIL_STEP * 99;
/// What requests of backlogged volumes may take on average, in percent of what they take undisturbed,
const KNEE_PERCENT: u64 = 400;
/// and what while quiet volumes are active.
const KNEE_BESIDE_QUIET_PERCENT: u64 = 150;
/// A request that ends changes the knee window by at most this part of its cost if it was early, and if it was late by as much for
/// each time that it took longer than it may, up to [`KNEE_LATE_MOST`] times. All requests that are under way at a time change it so
/// by about this part: their latencies tell of the window as it was when they began.
const KNEE_STEP: f64 = 8.0;
const KNEE_LATE_MOST: f64 = 16.0;
/// For how long a volume counts as quiet after its last request.
const QUIET_NS: u64 = 250_000_000;
/// How often the window is closed to its least size, and for how long.
const PROBE_EVERY_NS: u64 = 5_000_000_000;
const PROBE_NS: u64 = 50_000_000;
/// Requests after which a smoothed mean counts.
const SETTLED: u32 = 16;
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
}

/// A smoothed mean of latencies, and their smoothed deviation from it.
#[derive(Clone, Copy, Debug, Default)]
struct Smoothed {
    mean_ns: u64,
    deviation_ns: u64,
}

/// Latencies of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Latency {
    now: Smoothed,
    seen: u32,
    /// The lowest; a mean of 0 while there is none.
    undisturbed: Smoothed,
}

impl Latency {
    fn note(&mut self, ns: u64) {
        let Smoothed { mean_ns, deviation_ns } = self.now;
        if self.seen == 0 {
            self.now = Smoothed { mean_ns: ns, deviation_ns: ns / 2 };
        } else {
            let smooth = |old: u64, new: u64| (old * 15 + new) / 16;
            self.now = Smoothed {
                mean_ns: smooth(mean_ns, ns),
                deviation_ns: smooth(deviation_ns, ns.abs_diff(mean_ns)),
            };
        }
        self.seen = self.seen.saturating_add(1);
        let lowest = self.undisturbed.mean_ns;
        if self.seen >= SETTLED && (lowest == 0 || self.now.mean_ns <= lowest) {
            self.undisturbed = self.now;
        }
    }

    /// Lets the lowest mean rise by a quarter, up to the present one: it may be out of date.
    fn doubt(&mut self) {
        let Smoothed { mean_ns, deviation_ns } = self.undisturbed;
        let risen =
            Smoothed { mean_ns: mean_ns + mean_ns / 4 + 1, deviation_ns: deviation_ns + deviation_ns / 4 };
        self.undisturbed = if risen.mean_ns < self.now.mean_ns { risen } else { self.now };
    }

    /// Beyond this, a request of a quiet volume is late.
    fn tail_ns(&self) -> u64 {
        let Smoothed { mean_ns, deviation_ns } = self.undisturbed;
        (mean_ns + 4 * deviation_ns) * 3 / 2
    }

    /// What a request of a backlogged volume may take on average.
    fn knee_ns(&self, beside_quiet: bool) -> u64 {
        let percent = if beside_quiet { KNEE_BESIDE_QUIET_PERCENT } else { KNEE_PERCENT };
        self.undisturbed.mean_ns * percent / 100
    }
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) class: Class,
    pub(super) cost: u64,
    /// How long it took in the shard.
    pub(super) ns: u64,
    pub(super) of: Demand,
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
    latencies: [Latency; 2 * SIZES],
    /// Until when quiet volumes count as active.
    quiet_until: u64,
    probe_at: u64,
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
            latencies: [Latency::default(); 2 * SIZES],
            quiet_until: 0,
            probe_at: 0,
        }
    }

    /// Whether the tail window counts.
    pub(super) fn set_tail(&mut self, uses_tail: bool) {
        self.uses_tail = uses_tail;
    }

    /// The least that [`Window::size`] may be.
    pub(super) fn least(&self) -> u64 {
        self.least
    }

    /// The work that may be under way.
    pub(super) fn size(&self, now: u64) -> u64 {
        let is_probed = now < self.probe_at.saturating_sub(PROBE_EVERY_NS - PROBE_NS);
        if is_probed {
            self.least
        } else if self.uses_tail && now < self.quiet_until {
            self.tail.min(self.knee)
        } else {
            self.knee
        }
    }

    /// Notes a request that ends.
    pub(super) fn note(&mut self, now: u64, ended: Ended) {
        let Ended { class, cost, ns, of } = ended;
        if now >= self.probe_at {
            self.probe_at = now + PROBE_EVERY_NS;
            self.latencies.iter_mut().for_each(Latency::doubt);
        }
        let latency = &mut self.latencies[usize::from(class.0)];
        latency.note(ns);
        if of == Demand::Quiet {
            self.quiet_until = now + QUIET_NS;
        }
        let latency = *latency;
        if latency.undisturbed.mean_ns == 0 {
            return;
        }
        match of {
            Demand::Quiet => self.move_tail(now, ns > latency.tail_ns()),
            Demand::Below => {}
            Demand::Backlogged => {
                let may_take = latency.knee_ns(now < self.quiet_until);
                self.move_knee(now, cost, (ns as f64 / may_take as f64 - 1.0).min(KNEE_LATE_MOST));
            }
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

    /// Requests of a quiet volume, one in 0.1 ms, of which one in `late_every` takes ten times as long.
    fn quiet(window: &mut Window, from: u64, requests: u64, late_every: u64) {
        for i in 1..=requests {
            let ns = if i % late_every == 0 { MS } else { MS / 10 };
            let ended = Ended { class: Class::of(false, 1), cost: 20 << 10, ns, of: Demand::Quiet };
            window.note(from + i * MS / 10, ended);
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

    fn of_latency() -> Window {
        let mut window = Window::new(8);
        window.set_tail(true);
        window.knee = window.most;
        window
    }

    /// Members that work on four requests of 64 KiB of backlogged volumes at a time: more only wait. Returns how many the
    /// window lets in.
    fn backlogged(window: &mut Window, from: u64) -> u64 {
        let cost = 64 << 10;
        for i in 0..5000u64 {
            let now = from + i * MS / 10;
            let inside = (window.size(now) / cost).clamp(1, 64);
            let ns = inside.max(4) * MS / 4;
            window.note(now, Ended { class: Class::of(false, 16), cost, ns, of: Demand::Backlogged });
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
        let early = Ended { class: Class::of(false, 1), cost: 20 << 10, ns: MS / 20, of: Demand::Backlogged };
        for _ in 0..100 {
            window.note(100 * MS, early);
        }
        assert!(window.tail < window.knee && window.knee == 10 * LEAST_OF_8);
        window.set_tail(false);
        window.note(100 * MS, early);
        assert!(window.knee > 10 * LEAST_OF_8);
    }

    #[test]
    fn what_is_known_of_a_class_that_is_not_used_any_more_stays_within_what_was_seen() {
        let mut window = Window::new(8);
        let rare = Class::of(true, 256);
        for _ in 0..SETTLED {
            window.note(0, Ended { class: rare, cost: 8 << 20, ns: 3 * MS, of: Demand::Backlogged });
        }
        for hour in 0..24 {
            for minute in 0..60 {
                quiet(&mut window, (hour * 60 + minute) * 60_000 * MS, 1, u64::MAX);
            }
        }
        assert_eq!(window.latencies[usize::from(rare.0)].knee_ns(false), 12 * MS);
    }

    #[test]
    fn it_closes_now_and_then_to_learn_what_undisturbed_requests_take() {
        let mut window = of_latency();
        quiet(&mut window, 0, 40_000, u64::MAX);
        assert!(window.size(4900 * MS) > LEAST_OF_8);
        quiet(&mut window, 5000 * MS, 1, u64::MAX);
        assert_eq!(window.size(5001 * MS), LEAST_OF_8);
        assert!(window.size(5060 * MS) > LEAST_OF_8);
    }
}
