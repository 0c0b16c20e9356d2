//! The conversion of stripes of an elastic array in batches: the search for candidates, and the share that an operator has set.

use std::cell::Cell;
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::form::Form;
use sinew_members::io_priority::BackgroundWork;
use sinew_members::space_credit::SpaceNeed;
use sinew_members::throttle::{Limits, Throttle};

use crate::forms::Forms;
use crate::state::{RESERVED_STRIPES, RETRY_NS, ShardState};
use crate::stripe::Stripes;

/// Stripes of a batch, which share the flushes that a conversion needs.
const BATCH_STRIPES: u64 = 64;
/// Stripes of a batch at a rate that takes more of them: their runs fit into the head of a group.
const BATCH_STRIPES_MAX: u64 = 256;
/// Batches per second that keep a rate.
const BATCHES_PER_SECOND: u64 = 16;
/// Bytes of each member that are converted between two pauses for clients: as long as clients never pause, a batch advances
/// by this much in the longest time that background work gives way.
const YIELD_BYTES: u64 = 1 << 20;
/// Stripes that a search looks at before it gives up for now.
const SEARCHED_MAX: u64 = 1 << 20;

/// Which stripes are to be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidates {
    /// Any, in their order.
    Any,
    /// Stripes with parity that were used lately; those that compress well with a higher probability.
    Used,
    /// Stripes with parity that are used again and again.
    Hot,
    /// Mirrored stripes, with a second chance for those that were used; those that compress well with a lower probability.
    NotUsed,
    /// Mirrored stripes that were not used lately.
    Cold,
}

/// Converts the stripes of a shard.
pub(super) struct Converter<I> {
    state: Rc<ShardState<I>>,
    forms: Rc<Forms<I>>,
    stripes: Rc<Stripes<I>>,
    /// The rate of conversions, in bytes of data per second; without one they give way to clients.
    throttle: Throttle,
    /// Where the search for the next stripe with parity begins, and that for the next mirrored one.
    cursors: [Cell<u64>; 2],
}

impl<I: Io> Converter<I> {
    pub(super) fn new(
        state: &Rc<ShardState<I>>,
        forms: &Rc<Forms<I>>,
        stripes: &Rc<Stripes<I>>,
    ) -> Converter<I> {
        Converter {
            state: Rc::clone(state),
            forms: Rc::clone(forms),
            stripes: Rc::clone(stripes),
            throttle: Throttle::default(),
            cursors: Default::default(),
        }
    }

    /// Converts at this rate, in bytes of data per second, also beside clients that never pause; with 0 as fast as clients leave
    /// room for.
    pub(super) fn set_rate(&self, bytes_per_second: u64) {
        self.throttle.set(Limits { bytes_per_second, pause_above_iops: 0 });
    }

    /// Stripes of a batch.
    fn batch_stripes(&self) -> u64 {
        let stripe_bytes = self.state.layout().chunk_bytes() * self.state.layout().k as u64;
        (self.throttle.rate() / BATCHES_PER_SECOND / stripe_bytes).clamp(BATCH_STRIPES, BATCH_STRIPES_MAX)
    }

    /// The form that stripes are to get, and how many, for a share of mirrored stripes that an operator has set.
    pub(super) fn toward_share(&self, policy: &ElasticPolicy) -> Option<(Form, u64)> {
        let share = u64::from(policy.mirrored_share?);
        let (mirrored, parity) = (self.forms.count(Form::Mirrored), self.forms.count(Form::Parity));
        let target = (mirrored + parity) * share / 100;
        match mirrored.cmp(&target) {
            std::cmp::Ordering::Less => Some((Form::Mirrored, target - mirrored)),
            std::cmp::Ordering::Greater => Some((Form::Parity, mirrored - target)),
            std::cmp::Ordering::Equal => None,
        }
    }

    /// Converts stripes by the order of an operator.
    pub(super) async fn convert_any(&self, to: Form, count: u64) {
        let chosen =
            self.choose(to.counterpart(), count.min(self.batch_stripes()), Candidates::Any, None).await;
        if self.convert(chosen, to, false).await == 0 {
            self.state.mark(Mark::ArrayConvertRetried);
            self.state.io().sleep(RETRY_NS).await;
        }
    }

    /// Converts up to a batch of candidates; returns how many. `weighed`: by their compressibility.
    pub(super) async fn convert_some(&self, to: Form, count: u64, of: Candidates, weighed: bool) -> u64 {
        let chosen = self.choose_some(to, count, of, weighed).await;
        self.convert(chosen, to, true).await
    }

    /// Chooses up to a batch of candidates to be converted.
    pub(super) async fn choose_some(&self, to: Form, count: u64, of: Candidates, weighed: bool) -> Vec<u64> {
        let weighing = (weighed && self.state.members().space.is_limited()).then_some(to);
        self.choose(to.counterpart(), count.min(self.batch_stripes()), of, weighing).await
    }

    /// Chooses stripes of the form `from`. With a form to be weighed for, a stripe is taken with a probability that follows from
    /// its compressibility; as many as are wanted are weighed at a time.
    async fn choose(&self, from: Form, count: u64, of: Candidates, weighed_for: Option<Form>) -> Vec<u64> {
        let cursor = &self.cursors[usize::from(from == Form::Mirrored)];
        let mut chosen = Vec::with_capacity(count as usize);
        let (mut next, mut looked_at) = (cursor.get(), 0);
        // Twice around: a second chance is taken at the first time.
        let stripes = self.state.layout().stripes;
        let most = (2 * stripes).min(SEARCHED_MAX);
        while (chosen.len() as u64) < count {
            let mut lot = Vec::new();
            while ((chosen.len() + lot.len()) as u64) < count
                && looked_at <= most
                && let Some(stripe) = self.forms.next_of(from, next)
                && !chosen.contains(&stripe)
                && !lot.contains(&stripe)
            {
                looked_at += 1 + (stripe + stripes - next.min(stripes)) % stripes;
                next = stripe + 1;
                if self.is_candidate(stripe, of) {
                    lot.push(stripe);
                }
            }
            if lot.is_empty() {
                break;
            }
            let accepted = join_all(lot.iter().map(|&stripe| self.is_accepted(stripe, weighed_for))).await;
            chosen.extend(lot.into_iter().zip(accepted).filter_map(|(stripe, is)| is.then_some(stripe)));
        }
        cursor.set(next);
        chosen.sort_unstable();
        chosen
    }

    fn is_candidate(&self, stripe: u64, of: Candidates) -> bool {
        let heat = self.forms.heat();
        match of {
            Candidates::Any => true,
            Candidates::Hot | Candidates::Cold if mutation::on(Mutation::SwapForever) => true,
            Candidates::Used => heat.is_used(stripe),
            Candidates::Hot => heat.is_hot(stripe),
            Candidates::NotUsed => !heat.take_chance(stripe),
            Candidates::Cold => !heat.is_used(stripe),
        }
    }

    /// Draws whether a stripe is taken: a promotion in proportion to its compressibility, a demotion inversely (section 3.2.2).
    async fn is_accepted(&self, stripe: u64, weighed_for: Option<Form>) -> bool {
        let Some(to) = weighed_for else { return true };
        let mean = self.stripes.mean_compressibility().ratio_permille();
        let own = self.stripes.estimate_space(stripe).await.and_then(|estimate| estimate.ratio_permille());
        let (Some(own), Some(mean)) = (own, mean) else { return true };
        let (better, worse) = if to == Form::Mirrored { (own, mean) } else { (mean, own) };
        // A stripe of average compressibility is taken every second time.
        self.state.io().random() % (2 * worse).max(1) < better
    }

    /// The number of stripes, of `stripes`, for whose copies or parity there is physical space beside what clients and the reserve
    /// need. The reserve has space for the parity of some.
    async fn with_credit(&self, mut stripes: u64, to: Form) -> u64 {
        let layout = self.state.layout();
        let (columns, reserved) = match to {
            Form::Mirrored => (layout.k as u64, 0),
            _ => (1, RESERVED_STRIPES.min(stripes)),
        };
        let need = |stripes: u64| {
            let need = self.state.space_need(self.stripes.blocks_to_place());
            // Copies and parity go around the members.
            let chunks = ((stripes - reserved) * columns * layout.m as u64).div_ceil(layout.w as u64);
            SpaceNeed { reserve: need.reserve + chunks * layout.chunk_bytes(), ..need }
        };
        let members = self.state.members();
        if stripes > reserved && !members.has_credit(|| need(stripes)).await {
            while stripes > reserved && members.space.is_short(need(stripes)) {
                stripes = (stripes / 2).max(reserved);
            }
        }
        stripes
    }

    /// Converts stripes, which ascend; returns how many. `judged`: none that would take more space with parity gets it.
    pub(super) async fn convert(&self, mut chosen: Vec<u64>, to: Form, judged: bool) -> u64 {
        if chosen.is_empty() {
            return 0;
        }
        chosen.truncate(self.with_credit(chosen.len() as u64, to).await as usize);
        if chosen.is_empty() {
            self.state.mark(Mark::ArrayPromotionAwaitsSpace);
            return 0;
        }
        let layout = self.state.layout();
        let bytes = layout.chunk_bytes() * layout.k as u64 * chosen.len() as u64;
        self.state.throttle().pay(self.state.io(), bytes).await;
        self.throttle.pay(self.state.io(), bytes).await;
        if self.throttle.rate() == 0 {
            let members: Vec<MemberId> = layout.member_ids().collect();
            for some in chosen.chunks((YIELD_BYTES / layout.chunk_bytes()).max(1) as usize) {
                self.state.yield_to_clients(&members, layout.chunk_bytes() * some.len() as u64).await;
            }
        }
        self.stripes.convert(&chosen, to, judged).await.map_or(0, |converted| converted as u64)
    }
}
