//! Closed forms of the mean time to data loss, in hours, with exponential lives and repairs.
//!
//! Greenan, Plank and Wylie ("Mean time to meaningless", HotStorage 2010) show why such a time says little on its own: it is
//! far beyond the life of the hardware. The probability of a loss within the mission ([`crate::chain`]) belongs beside it.

/// Members that fail and are repaired.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The number of members.
    pub members: u32,
    /// Mean hours to the failure of a member.
    pub mttf_hours: f64,
    /// Mean hours to its repair.
    pub mttr_hours: f64,
    /// The probability that a repair without further redundancy meets a latent error (h).
    pub latent: f64,
}

impl Rates {
    fn parts(&self) -> (f64, f64, f64, f64) {
        (f64::from(self.members), 1.0 / self.mttf_hours, 1.0 / self.mttr_hours, self.latent)
    }

    /// An array that survives one loss: ((2n - 1) l + m) / (n l ((n - 1) l + m h)).
    pub fn one_loss(&self) -> f64 {
        let (n, l, m, h) = self.parts();
        ((2.0 * n - 1.0) * l + m) / (n * l * ((n - 1.0) * l + m * h))
    }

    /// An array that survives two losses, repaired one after the other. With a = n l, b = (n - 1) l, c = (n - 2) l:
    /// 1 / a + (a + m) / (a b) + (1 + m (1 - h) (a + m) / (a b)) / (c + m h).
    pub fn two_losses(&self) -> f64 {
        let (n, l, m, h) = self.parts();
        let (a, b, c) = (n * l, (n - 1.0) * l, (n - 2.0) * l);
        let to_two = (a + m) / (a * b);
        1.0 / a + to_two + (1.0 + m * (1.0 - h) * to_two) / (c + m * h)
    }

    /// Pairs of mirrored members: the first pair to lose both, `members / 2` of them.
    pub fn pairs(&self) -> f64 {
        Rates { members: 2, ..*self }.one_loss() / (f64::from(self.members) / 2.0)
    }
}
