//! The form of a stripe of a mapped pool, and the class of volumes whose blocks it holds.

/// How the data of a stripe is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeForm {
    /// Every data column has its mirrors until its parity is written, for which chunks are reserved. In a pool of mirrors
    /// there is no parity, and it stays so.
    Mirrored,
    /// Parity matches the data; there are no mirrors.
    Parity,
    /// Every data column has its mirrors for good, in a pool with parity: the stripe has the blocks of volumes of mirrors.
    Pinned,
}

impl StripeForm {
    /// All forms, in the order of their codes on the members.
    pub const ALL: [StripeForm; 3] = [StripeForm::Mirrored, StripeForm::Parity, StripeForm::Pinned];

    /// Whether data columns have mirrors.
    pub fn has_mirrors(self) -> bool {
        self != StripeForm::Parity
    }

    /// The class of the blocks in such a stripe.
    pub fn class(self) -> StripeClass {
        match self {
            StripeForm::Mirrored | StripeForm::Parity => StripeClass::Pool,
            StripeForm::Pinned => StripeClass::Pinned,
        }
    }
}

/// Which stripes the blocks of a volume are in. A stripe has blocks of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StripeClass {
    /// Stripes with the protection of the pool.
    #[default]
    Pool,
    /// Stripes that stay mirrored, in a pool with parity.
    Pinned,
}

impl StripeClass {
    /// All classes.
    pub const ALL: [StripeClass; 2] = [StripeClass::Pool, StripeClass::Pinned];
}
