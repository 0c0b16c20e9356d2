//! The conversion of stripes of an elastic array: towards the share of mirrored stripes that is wanted.

use std::cell::Cell;
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::io::Io;
use sinew_format::model::form::{ElasticPolicy, Form};

use crate::forms::Forms;
use crate::state::{RETRY_NS, ShardState};
use crate::stripe::Stripes;

/// Stripes of a batch, which share the flushes that a conversion needs.
const BATCH_STRIPES: u64 = 64;

/// Converts the stripes of a shard.
pub(crate) struct Converter<I> {
    state: Rc<ShardState<I>>,
    forms: Rc<Forms<I>>,
    stripes: Rc<Stripes<I>>,
    policy: Cell<ElasticPolicy>,
    /// Where the search for the next stripe to be converted begins.
    cursor: Cell<u64>,
}

impl<I: Io> Converter<I> {
    /// The job, not yet running.
    pub(crate) fn new(
        state: &Rc<ShardState<I>>,
        forms: &Rc<Forms<I>>,
        stripes: &Rc<Stripes<I>>,
    ) -> Converter<I> {
        Converter {
            state: Rc::clone(state),
            forms: Rc::clone(forms),
            stripes: Rc::clone(stripes),
            policy: Cell::default(),
            cursor: Cell::new(0),
        }
    }

    /// Converts by this policy from now on.
    pub(crate) fn set_policy(&self, policy: ElasticPolicy) {
        self.policy.set(policy);
        self.forms.set_first(match policy.mirrored_share {
            Some(share) if share >= 50 => Form::Mirrored,
            _ => Form::Parity,
        });
        self.forms.wake_conversion();
    }

    /// Stripes to be converted now.
    pub(crate) fn left(&self) -> u64 {
        self.wanted().map_or(0, |(_, count)| count)
    }

    /// Converts whenever the share is not the one that is wanted, for ever.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.forms.wait_for_change().await;
            while let Some((to, count)) = self.wanted() {
                if self.state.is_closing() || self.state.has_failed() {
                    break;
                }
                if !self.convert_batch(to, count.min(BATCH_STRIPES)).await {
                    self.state.mark(Mark::ArrayConvertRetried);
                    self.state.io().sleep(RETRY_NS).await;
                }
            }
        }
    }

    /// The form that stripes are to get now, and how many.
    fn wanted(&self) -> Option<(Form, u64)> {
        let share = u64::from(self.policy.get().mirrored_share?);
        let (mirrored, parity) = (self.forms.count(Form::Mirrored), self.forms.count(Form::Parity));
        let target = (mirrored + parity) * share / 100;
        match mirrored.cmp(&target) {
            std::cmp::Ordering::Less => Some((Form::Mirrored, target - mirrored)),
            std::cmp::Ordering::Greater => Some((Form::Parity, mirrored - target)),
            std::cmp::Ordering::Equal => None,
        }
    }

    /// Whether there is physical space for the copies of some stripes, beside what clients and the reserve need.
    async fn has_credit(&self, stripes: u64) -> bool {
        let layout = self.state.layout();
        let blocks = stripes * u64::from(layout.stripe_slots());
        let need = || self.state.space_need(blocks + self.stripes.blocks_to_place());
        self.state.members().has_credit(need).await
    }

    /// Converts some stripes; false when none could be converted.
    async fn convert_batch(&self, to: Form, count: u64) -> bool {
        if to == Form::Mirrored && !self.has_credit(count).await {
            self.state.mark(Mark::ArrayPromotionAwaitsSpace);
            return false;
        }
        let from = to.counterpart();
        let mut chosen = Vec::with_capacity(count as usize);
        let mut next = self.cursor.get();
        while (chosen.len() as u64) < count
            && let Some(stripe) = self.forms.next_of(from, next)
            && !chosen.contains(&stripe)
        {
            chosen.push(stripe);
            next = stripe + 1;
        }
        self.cursor.set(next);
        chosen.sort_unstable();
        let layout = self.state.layout();
        let bytes = u64::from(layout.chunk_blocks) * BLOCK_BYTES as u64 * layout.k as u64;
        self.state.throttle().pay(self.state.io(), bytes * chosen.len() as u64).await;
        for &stripe in &chosen {
            self.state.yield_stripe_to_clients(stripe).await;
        }
        matches!(self.stripes.convert(&chosen, to).await, Ok(1..))
    }
}
