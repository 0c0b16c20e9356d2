//! Governing the forms of an elastic array: samples the physical use, asks the governor, and has stripes converted, or keeps the
//! share of mirrored stripes that an operator has set.
//!
//! The task sleeps once clients have sent nothing for a while and there is nothing to do, so an array at rest stays at rest.
//! A client's request, a write that waits for space, and another policy wake it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::io::Io;
use sinew_core::sync::before;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::form::Form;
use sinew_members::full_members::RETRY_NS;
use sinew_members::status::GovernorStatus;

use crate::background::convert::{Candidates, Converter};
use crate::background::governor::{Governor, MemberRoom, Order, Seen};
use crate::bitmap::Bitmap;
use crate::forms::Forms;
use crate::state::ShardState;
use crate::stripe::Stripes;

/// Samples without a request and without an order after which the task sleeps. More than the governor needs to find the use
/// steady.
const IDLE_SAMPLES: u32 = 12;
/// Batches of an order before the physical use is looked at again.
const BATCHES_MAX: u64 = 16;
/// The longest time for which demoted stripes are waited for to give their space back.
const TIDY_NS_MAX: u64 = 1_000_000_000;
const TIDY_LOOK_NS: u64 = 5_000_000;
/// The least number of used stripes that ends an epoch of the heat.
const EPOCH_STRIPES_MIN: u64 = 8;
/// Stripes that a search for autonomous conversion looks at in one sample at most.
const SWEPT_MAX: u64 = 64;
/// The time that the reported share of hits covers.
const HITS_NS: u64 = 60_000_000_000;

/// Governs the forms of a shard.
pub(crate) struct Governing<I> {
    state: Rc<ShardState<I>>,
    bitmap: Rc<Bitmap<I>>,
    forms: Rc<Forms<I>>,
    stripes: Rc<Stripes<I>>,
    converter: Converter<I>,
    policy: Cell<ElasticPolicy>,
    governor: RefCell<Governor>,
    /// Stripes of the order under way that are still to be converted.
    left: Cell<u64>,
    /// Requests when the last sample was taken, and samples since then without any or an order.
    requests: Cell<u64>,
    idle: Cell<u32>,
    /// Requests and hits at the times of the samples of the last minute.
    seen_hits: RefCell<VecDeque<(u64, u64, u64)>>,
    sweep: Sweep,
}

/// The search for stripes that take less space mirrored.
#[derive(Default)]
struct Sweep {
    /// The next stripe; `None` between two searches.
    next: Cell<Option<u64>>,
    /// Writes when the last search began: stripes change by writes alone.
    writes: Cell<u64>,
    not_before: Cell<u64>,
}

impl<I: Io> Governing<I> {
    /// The job, not yet running. Without a policy stripes keep their form.
    pub(crate) fn new(
        state: &Rc<ShardState<I>>,
        bitmap: &Rc<Bitmap<I>>,
        forms: &Rc<Forms<I>>,
        stripes: &Rc<Stripes<I>>,
    ) -> Governing<I> {
        Governing {
            state: Rc::clone(state),
            bitmap: Rc::clone(bitmap),
            forms: Rc::clone(forms),
            stripes: Rc::clone(stripes),
            converter: Converter::new(state, forms, stripes),
            policy: Cell::new(ElasticPolicy::FIXED),
            governor: RefCell::default(),
            left: Cell::new(0),
            requests: Cell::new(0),
            idle: Cell::new(0),
            seen_hits: RefCell::default(),
            sweep: Sweep::default(),
        }
    }

    /// Converts by this policy from now on.
    pub(crate) fn set_policy(&self, policy: ElasticPolicy) {
        self.policy.set(policy);
        self.governor.replace(Governor::default());
        self.converter.set_rate(policy.convert_rate);
        self.idle.set(0);
        self.forms.set_first(match policy.mirrored_share {
            Some(share) if share >= 50 => Form::Mirrored,
            _ => Form::Parity,
        });
        self.forms.wake_conversion();
    }

    /// Stripes to be converted now.
    pub(crate) fn left(&self) -> u64 {
        match self.converter.toward_share(&self.policy.get()) {
            Some((_, count)) => count,
            None => self.left.get(),
        }
    }

    /// What the governor has seen.
    pub(crate) fn status(&self) -> GovernorStatus {
        let seen = self.seen_hits.borrow();
        let (first, last) =
            (seen.front().copied().unwrap_or_default(), self.forms.heat().requests_and_hits());
        let mean = self.stripes.mean_compressibility();
        GovernorStatus {
            requests: last.0 - first.1,
            hits: last.1 - first.2,
            data_bytes: mean.data,
            data_stored_bytes: mean.data_stored,
            parity_bytes: mean.parity,
            parity_stored_bytes: mean.parity_stored,
        }
    }

    /// Converts stripes as the policy says, for ever.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.forms.wait_for_change().await;
            while !self.state.is_closing() && !self.state.has_failed() {
                let policy = self.policy.get();
                if let Some((to, count)) = self.converter.toward_share(&policy) {
                    self.converter.convert_any(to, count).await;
                } else if policy.mirrored_share.is_some() || !policy.governed || !self.govern(policy).await {
                    break;
                }
            }
        }
    }

    /// Takes one sample after the interval, and does what the governor orders; false when the task may sleep.
    async fn govern(&self, policy: ElasticPolicy) -> bool {
        self.wait(u64::from(policy.interval_ms) * 1_000_000).await;
        self.state.members().sample_space().await;
        if self.state.is_closing() || self.policy.get() != policy {
            return true;
        }
        let seen = self.look(&policy);
        self.limit_epoch(&seen);
        let order = self.governor.borrow_mut().decide(&seen, &policy);
        let first = if self.governor.borrow().is_promoting() { Form::Mirrored } else { Form::Parity };
        self.forms.set_first(first);
        let done = self.carry_out(order, &seen, &policy).await + self.sweep_some(&seen, &policy).await;
        if done > 0 && !matches!(order, Order::Demote(_)) {
            self.governor.borrow_mut().note_own_growth();
        }
        self.left.set(0);
        let is_idle = done == 0 && seen.requests == self.requests.replace(seen.requests);
        self.idle.set(if is_idle { self.idle.get() + 1 } else { 0 });
        if self.idle.get() < IDLE_SAMPLES || self.sweep.next.get().is_some() {
            return true;
        }
        self.forms.sleep_until_used();
        false
    }

    /// Waits for the next sample; not as long if clients wait for space.
    async fn wait(&self, ns: u64) {
        before(self.forms.wait_for_pressure(), self.state.io().sleep(ns)).await;
        if ns > RETRY_NS && self.forms.waiting_blocks() > 0 {
            self.state.io().sleep(RETRY_NS).await;
        }
    }

    fn look(&self, policy: &ElasticPolicy) -> Seen {
        let (state, forms) = (&self.state, &self.forms);
        let domains = state.members().space.domains();
        let shards = state.layout().geometry.shards;
        let room_to = |percent: u8| {
            domains
                .iter()
                .map(|domain| domain.room_to(percent))
                .min()
                .map_or(i64::MAX, |room| room / shards as i64)
        };
        let (requests, hits) = forms.heat().requests_and_hits();
        let waiting = forms.take_waiting_blocks();
        let need = state.space_need(self.stripes.blocks_to_place());
        let share_of_space =
            domains.iter().map(|domain| domain.member_bytes() / shards as u64).min().unwrap_or(u64::MAX);
        let room = self.governor.borrow_mut().limit_room(MemberRoom {
            space: share_of_space,
            to_low: room_to(policy.low),
            to_high: room_to(policy.high),
            beside_reserve: state.members().space.room_beside(need),
        });
        let seen = Seen {
            now: state.io().now(),
            used_permille: domains.iter().map(|domain| domain.used_permille()).max().unwrap_or(0),
            share_of_space,
            room_to_low: room.to_low,
            room_to_high: room.to_high,
            is_short: waiting > 0 && state.members().space.is_short_for(waiting, need),
            mirrored: forms.count(Form::Mirrored),
            parity: forms.count(Form::Parity),
            requests,
            hits,
            epochs: forms.heat().epochs(),
            growth: self.growth(),
            is_whole: state.members_out().next().is_none(),
        };
        let mut hits_seen = self.seen_hits.borrow_mut();
        while hits_seen.front().is_some_and(|&(then, _, _)| then + HITS_NS < seen.now) {
            hits_seen.pop_front();
        }
        hits_seen.push_back((seen.now, requests, hits));
        seen
    }

    /// Bytes that a stripe is expected to take more of each member when it is mirrored.
    fn growth(&self) -> u64 {
        let layout = self.state.layout();
        let chunk = layout.chunk_bytes();
        let mean = self.stripes.mean_compressibility();
        let stored = |bytes: u64, stored: u64| (chunk * stored).checked_div(bytes).unwrap_or(chunk);
        let m = layout.m as u64;
        let copies = m * layout.k as u64 * stored(mean.data, mean.data_stored);
        let parity = m * stored(mean.parity, mean.parity_stored);
        (copies.saturating_sub(parity) / layout.w as u64).max(1)
    }

    /// An epoch of the heat ends when as many stripes were used as are mirrored, or could be.
    fn limit_epoch(&self, seen: &Seen) {
        let room = seen.room_to_low.max(0).unsigned_abs() / seen.growth;
        let candidates = seen.mirrored.saturating_add(room);
        let most = ((seen.mirrored + seen.parity) / 2).max(EPOCH_STRIPES_MIN);
        self.forms.heat().set_epoch_stripes(candidates.clamp(EPOCH_STRIPES_MIN, most));
    }

    /// Returns the number of stripes converted.
    async fn carry_out(&self, order: Order, seen: &Seen, policy: &ElasticPolicy) -> u64 {
        // Clients that wait do not wait for estimates.
        let weighed = policy.weighed && !seen.is_short;
        match order {
            Order::Rest => 0,
            Order::Promote(count) => {
                let done = self.convert(Form::Mirrored, count, Candidates::Used, weighed).await;
                if done > 0 {
                    self.state.mark(Mark::ArrayGovernorPromoted);
                }
                self.governor.borrow_mut().note_promoted(done, seen);
                done
            }
            Order::Demote(count) => {
                let done = self.convert(Form::Parity, count, Candidates::NotUsed, weighed).await;
                if done > 0 {
                    self.state.mark(Mark::ArrayGovernorDemoted);
                    self.wait_until_tidy().await;
                }
                done
            }
            Order::Exchange(count) => {
                let done = self.exchange(count, weighed).await;
                match done {
                    0 => self.governor.borrow_mut().note_no_exchange(seen.now, policy),
                    _ => self.state.mark(Mark::ArrayGovernorExchanged),
                }
                done
            }
        }
    }

    /// Exchanges cold mirrored stripes for hot ones; returns the number of stripes converted.
    async fn exchange(&self, count: u64, weighed: bool) -> u64 {
        let (mut exchanged, mut converted) = (0, 0);
        while exchanged < count && !self.state.is_closing() {
            self.left.set(count - exchanged);
            let hot =
                self.converter.choose_some(Form::Mirrored, count - exchanged, Candidates::Hot, weighed).await;
            let demoted = match hot.len() as u64 {
                0 => 0,
                wanted => self.converter.convert_some(Form::Parity, wanted, Candidates::Cold, weighed).await,
            };
            if demoted == 0 {
                break;
            }
            self.wait_until_tidy().await;
            let hot = hot.into_iter().take(demoted as usize).collect();
            converted += demoted + self.converter.convert(hot, Form::Mirrored, true).await;
            exchanged += demoted;
        }
        converted
    }

    async fn convert(&self, to: Form, count: u64, of: Candidates, weighed: bool) -> u64 {
        let (mut done, mut batches) = (0, 0);
        while done < count && batches < BATCHES_MAX && !self.state.is_closing() {
            self.left.set(count - done);
            // A part of the candidates is not accepted, so a batch may be short.
            match self.converter.convert_some(to, count - done, of, weighed).await {
                0 => break,
                converted => done += converted,
            }
            batches += 1;
        }
        done
    }

    /// Waits until units that stripes do not use any more are discarded, so that the next sample tells what is free.
    async fn wait_until_tidy(&self) {
        let end = self.state.io().now() + TIDY_NS_MAX;
        while self.bitmap.regions().untidy().any() && !self.state.is_closing() && self.state.io().now() < end
        {
            self.state.io().sleep(TIDY_LOOK_NS).await;
        }
    }

    /// Autonomous conversion (section 3.3): looks at some stripes with parity, and makes those mirrored that take less space so.
    /// Returns the number of stripes converted.
    async fn sweep_some(&self, seen: &Seen, policy: &ElasticPolicy) -> u64 {
        let (sweep, writes) = (&self.sweep, self.forms.heat().writes());
        if !policy.autonomous || !seen.is_whole || !self.state.members().space.is_limited() {
            sweep.next.set(None);
            return 0;
        }
        let period = u64::from(policy.autonomous_period_s) * 1_000_000_000;
        let Some(first) = sweep.next.get() else {
            if writes > sweep.writes.get() && seen.now >= sweep.not_before.get() {
                sweep.writes.set(writes);
                sweep.not_before.set(seen.now + period);
                sweep.next.set(Some(0));
            }
            return 0;
        };
        let copies = self.state.layout().m;
        let samples = (period / (u64::from(policy.interval_ms) * 1_000_000)).max(1);
        let (mut next, mut found) = (Some(first), Vec::new());
        for _ in 0..seen.parity.div_ceil(samples).clamp(1, SWEPT_MAX) {
            let stripe =
                next.and_then(|from| self.forms.next_of(Form::Parity, from).filter(|&stripe| stripe >= from));
            next = stripe.map(|stripe| stripe + 1);
            if let Some(stripe) = stripe
                && let Some(estimate) = self.stripes.estimate_space(stripe).await
                && estimate.copies_free_space(copies)
            {
                found.push(stripe);
            }
        }
        sweep.next.set(next);
        let done = self.converter.convert(found, Form::Mirrored, true).await;
        if done > 0 {
            self.state.mark(Mark::ArrayGovernorAutonomous);
        }
        done
    }
}
