//! The heads of stripes, which are always in memory: state, live blocks, stale marks, and the addresses of chunks.
//!
//! Stripes are grouped, so that the table of a large pool grows without being copied.

use sinew_core::ids::{ChunkAddr, StripeId};
use sinew_format::model::mapped_geometry::MappedGeometry;
use sinew_format::model::stripe_form::StripeForm;

/// Stripes of a group.
const GROUP_STRIPES: usize = 256;

/// What a stripe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StripeState {
    /// Its number is unused.
    Free,
    /// Every data column has its mirrors; parity chunks are reserved but hold nothing.
    Mirrored,
    /// Parity matches the data; there are no mirrors.
    Parity,
    /// Every data column has its mirrors for good, and no parity chunks.
    Pinned,
}

impl StripeState {
    /// The state of a stripe of this form.
    pub(super) fn of(form: StripeForm) -> StripeState {
        match form {
            StripeForm::Mirrored => StripeState::Mirrored,
            StripeForm::Parity => StripeState::Parity,
            StripeForm::Pinned => StripeState::Pinned,
        }
    }

    /// The form of the stripe; `None` when its number is unused.
    pub(crate) fn form(self) -> Option<StripeForm> {
        StripeForm::ALL.into_iter().find(|&form| StripeState::of(form) == self)
    }
}

/// One stripe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stripe {
    pub(crate) state: StripeState,
    /// Data columns in use, from the first.
    pub(crate) columns: u8,
    /// Slots the map refers to.
    pub(crate) live: u32,
    /// Bit i: home i does not hold what it should.
    pub(crate) stale: u128,
}

/// A number that is not used.
pub(super) const FREE: Stripe = Stripe { state: StripeState::Free, columns: 0, live: 0, stale: 0 };

/// The heads of all stripes whose numbers were ever used.
pub(super) struct StripeHeads {
    homes_per_stripe: usize,
    stripes: usize,
    groups: Vec<Group>,
}

struct Group {
    heads: Box<[Head]>,
    /// Of each stripe as many bytes as its homes have bits.
    stale: Box<[u8]>,
    homes: Box<[Option<ChunkAddr>]>,
}

/// A [`Stripe`] without its stale marks.
#[derive(Clone, Copy)]
struct Head {
    state: StripeState,
    columns: u8,
    live: u32,
}

impl StripeHeads {
    pub(super) fn new(geometry: &MappedGeometry) -> StripeHeads {
        StripeHeads { homes_per_stripe: geometry.homes_per_stripe(), stripes: 0, groups: Vec::new() }
    }

    /// Stripe numbers ever used.
    pub(super) fn count(&self) -> u32 {
        self.stripes as u32
    }

    /// Makes room for this many stripes.
    pub(super) fn grow(&mut self, stripes: usize) {
        let (homes, stale) = (self.homes_per_stripe, self.stale_bytes());
        let group = || Group {
            heads: vec![Head { state: StripeState::Free, columns: 0, live: 0 }; GROUP_STRIPES].into(),
            stale: vec![0; GROUP_STRIPES * stale].into(),
            homes: vec![None; GROUP_STRIPES * homes].into(),
        };
        self.groups.resize_with(stripes.div_ceil(GROUP_STRIPES), group);
        self.stripes = stripes;
    }

    pub(super) fn get(&self, id: StripeId) -> Stripe {
        let (group, at) = split(id);
        let Some(group) = self.groups.get(group) else { return FREE };
        let Head { state, columns, live } = group.heads[at];
        let bytes = &group.stale[at * self.stale_bytes()..][..self.stale_bytes()];
        let stale = bytes.iter().rev().fold(0, |stale, &byte| stale << 8 | u128::from(byte));
        Stripe { state, columns, live, stale }
    }

    /// # Panics
    /// When there is no room for the stripe, as all that change it.
    pub(super) fn set(&mut self, id: StripeId, stripe: Stripe) {
        let (bytes, (group, at)) = (self.stale_bytes(), split(id));
        let group = &mut self.groups[group];
        group.heads[at] = Head { state: stripe.state, columns: stripe.columns, live: stripe.live };
        group.stale[at * bytes..][..bytes].copy_from_slice(&stripe.stale.to_le_bytes()[..bytes]);
    }

    /// Changes a stripe.
    pub(super) fn update(&mut self, id: StripeId, change: impl FnOnce(&mut Stripe)) {
        let mut stripe = self.get(id);
        change(&mut stripe);
        self.set(id, stripe);
    }

    /// The number of live blocks of a stripe, to be changed, and its state.
    pub(super) fn live_mut(&mut self, id: StripeId) -> (&mut u32, StripeState) {
        let (group, at) = split(id);
        let head = &mut self.groups[group].heads[at];
        (&mut head.live, head.state)
    }

    /// The addresses of the chunks of a stripe.
    pub(super) fn homes(&self, id: StripeId) -> &[Option<ChunkAddr>] {
        let (group, at) = split(id);
        &self.groups[group].homes[at * self.homes_per_stripe..][..self.homes_per_stripe]
    }

    /// The addresses of the chunks of a stripe, to be changed.
    pub(super) fn homes_mut(&mut self, id: StripeId) -> &mut [Option<ChunkAddr>] {
        let (group, at) = split(id);
        &mut self.groups[group].homes[at * self.homes_per_stripe..][..self.homes_per_stripe]
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let of_stripe =
            size_of::<Head>() + self.stale_bytes() + self.homes_per_stripe * size_of::<Option<ChunkAddr>>();
        self.groups.capacity() * size_of::<Group>() + self.groups.len() * GROUP_STRIPES * of_stripe
    }

    fn stale_bytes(&self) -> usize {
        self.homes_per_stripe.div_ceil(8)
    }
}

fn split(id: StripeId) -> (usize, usize) {
    (id.0 as usize / GROUP_STRIPES, id.0 as usize % GROUP_STRIPES)
}
