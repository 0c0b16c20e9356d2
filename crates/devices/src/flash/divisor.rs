//! Division by a number that is known only at run time but never changes, as a multiplication.

/// A divisor, for 32-bit numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisor(u64);

impl Divisor {
    pub(super) fn new(divisor: u32) -> Divisor {
        assert!(divisor > 0, "a divisor is not 0");
        Divisor(u64::MAX / u64::from(divisor))
    }

    /// `number` divided by the divisor d, rounded down.
    ///
    /// With m = (2^64 - r) / d and 0 < r <= d, m (n + 1) / 2^64 is (n + 1) / d less r (n + 1) / (d 2^64). That is more than
    /// 0 and at most 1 / d, so rounding it down gives n / d rounded down (Robison, "N-bit unsigned division via N-bit
    /// multiply-add", ARITH 2005).
    #[inline]
    pub(super) fn divide(self, number: u32) -> u32 {
        ((u128::from(self.0) * (u128::from(number) + 1)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_those_of_a_division() {
        let special = |n: u32| [n.wrapping_sub(1), n, n.wrapping_add(1)];
        let powers: Vec<u32> = (0..32).flat_map(|bit| special(1 << bit)).chain([u32::MAX]).collect();
        for &divisor in powers.iter().filter(|&&divisor| divisor > 0) {
            let by = Divisor::new(divisor);
            let near = powers.iter().flat_map(|&n| special((n / divisor).wrapping_mul(divisor)));
            for number in powers.iter().copied().chain(near) {
                assert_eq!(by.divide(number), number / divisor, "{number} / {divisor}");
            }
        }
    }
}
