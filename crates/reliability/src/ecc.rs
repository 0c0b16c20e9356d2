//! Error-correcting codes: the probability that a code word has more wrong bits than its code corrects.
//!
//! The tail of the distribution is summed from logarithms, term by term from the first one on. The regularised incomplete
//! beta function gives the same tail for independent bits, but not for bits whose rate varies between code words.

use statrs::function::factorial::ln_binomial;
use statrs::function::gamma::ln_gamma;

use crate::error::{Error, Result, probability};

/// A term below this part of the sum ends a tail.
const NEGLIGIBLE: f64 = 1e-18;

/// A binary code that corrects a number of bits of a code word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Bits of a code word, check bits included.
    pub bits: u64,
    /// Wrong bits that the code corrects.
    pub corrects: u64,
}

impl Code {
    /// A BCH code over a field of 2^`field_bits` elements: it takes `field_bits` check bits for each corrected bit.
    ///
    /// # Errors
    /// A code word that is longer than the field allows.
    pub fn bch(data_bits: u64, corrects: u64, field_bits: u32) -> Result<Code> {
        let bits = data_bits + corrects * u64::from(field_bits);
        if field_bits > 32 || bits >= 1 << field_bits {
            let why = format!("{bits} bits do not fit a BCH code over a field of 2^{field_bits} elements");
            return Err(Error::new("corrects", why));
        }
        Ok(Code { bits, corrects })
    }

    /// The BCH code over 1 KiB of data that corrects `corrects` bits: 14 check bits each.
    ///
    /// # Errors
    /// A code that corrects more than the field of 2^14 elements allows.
    pub fn bch_of_1_kib(corrects: u64) -> Result<Code> {
        Code::bch(8192, corrects, 14)
    }

    /// The probability that a code word cannot be corrected (CWER), with independent bits.
    ///
    /// # Errors
    /// A rate that is not a probability.
    pub fn word_error_rate(&self, rber: f64) -> Result<f64> {
        probability("rber", rber)?;
        if rber == 0.0 || self.corrects >= self.bits {
            return Ok(0.0);
        }
        if rber == 1.0 {
            return Ok(1.0);
        }
        let (ln_wrong, ln_right) = (rber.ln(), (-rber).ln_1p());
        let ln_term = |wrong: u64| {
            ln_binomial(self.bits, wrong) + wrong as f64 * ln_wrong + (self.bits - wrong) as f64 * ln_right
        };
        Ok(self.tail(self.bits as f64 * rber, ln_term))
    }

    /// The same if the rate of a code word is itself random, beta-distributed with mean `rber`: the beta-binomial channel of
    /// Taranalli, Uchikawa and Siegel. `correlation` is that of two bits of a word, which is 1 / (a + b + 1) of the beta
    /// distribution's parameters; near 0 it is the rate of independent bits.
    ///
    /// # Errors
    /// A rate or correlation that is not above 0 and below 1.
    pub fn word_error_rate_dispersed(&self, rber: f64, correlation: f64) -> Result<f64> {
        for (name, value) in [("rber", rber), ("correlation", correlation)] {
            if !(value > 0.0 && value < 1.0) {
                return Err(Error::new(name, format!("{value} is not above 0 and below 1")));
            }
        }
        if self.corrects >= self.bits {
            return Ok(0.0);
        }
        let sum = 1.0 / correlation - 1.0;
        let (a, b) = (rber * sum, (1.0 - rber) * sum);
        let ln_beta = |a: f64, b: f64| ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
        let all = ln_beta(a, b);
        let ln_term = |wrong: u64| {
            let right = (self.bits - wrong) as f64;
            ln_binomial(self.bits, wrong) + ln_beta(a + wrong as f64, b + right) - all
        };
        Ok(self.tail(self.bits as f64 * rber, ln_term))
    }

    /// The sum of the terms above `corrects`. Above the mean the terms fall, so the sum ends when they are negligible.
    fn tail(&self, mean: f64, ln_term: impl Fn(u64) -> f64) -> f64 {
        let mut sum = 0.0;
        for wrong in self.corrects + 1..=self.bits {
            let term = ln_term(wrong).exp();
            sum += term;
            if wrong as f64 > mean && term <= sum * NEGLIGIBLE {
                break;
            }
        }
        sum.min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_codes_agree_with_counting() {
        // 5 bits, 2 corrected: P(3, 4 or 5 wrong) at 0.1 is 0.00856.
        let code = Code { bits: 5, corrects: 2 };
        assert!((code.word_error_rate(0.1).unwrap() - 0.00856).abs() < 1e-15);
        assert_eq!(code.word_error_rate(0.0), Ok(0.0));
        assert_eq!(code.word_error_rate(1.0), Ok(1.0));
        assert_eq!(Code { bits: 5, corrects: 5 }.word_error_rate(0.5), Ok(0.0));
    }

    #[test]
    fn the_tail_is_that_of_the_incomplete_beta_function() {
        let code = Code::bch_of_1_kib(24).unwrap();
        for rber in [5e-4, 1e-3, 2e-3, 4e-3] {
            let ours = code.word_error_rate(rber).unwrap();
            let theirs = statrs::function::beta::beta_reg(25.0, (code.bits - 24) as f64, rber);
            assert!((ours / theirs - 1.0).abs() < 1e-9, "{rber}: {ours} {theirs}");
        }
    }

    #[test]
    fn dispersed_bits_overwhelm_the_code_more_often() {
        let code = Code::bch_of_1_kib(40).unwrap();
        let independent = code.word_error_rate(2e-3).unwrap();
        let nearly = code.word_error_rate_dispersed(2e-3, 1e-9).unwrap();
        assert!((nearly / independent - 1.0).abs() < 1e-3, "{nearly} {independent}");
        assert!(code.word_error_rate_dispersed(2e-3, 1e-4).unwrap() > 2.0 * independent);
        // A uniform rate on 0 to 1 (a = b = 1) makes every count of wrong bits equally likely.
        let uniform = Code { bits: 9, corrects: 4 }.word_error_rate_dispersed(0.5, 1.0 / 3.0).unwrap();
        assert!((uniform - 0.5).abs() < 1e-12, "{uniform}");
    }

    #[test]
    fn impossible_codes_are_refused() {
        assert!(Code::bch(8192, 1000, 14).is_err());
        assert!(Code { bits: 8, corrects: 1 }.word_error_rate(1.5).is_err());
        assert!(Code { bits: 8, corrects: 1 }.word_error_rate_dispersed(0.1, 0.0).is_err());
    }
}
