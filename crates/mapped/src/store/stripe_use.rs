//! The users of one stripe.

/// A number of requests, or one background job alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StripeUse {
    Shared(u32),
    Alone,
}
