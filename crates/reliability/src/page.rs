//! Page errors, and page losses under a stripe of pages with one parity page.

use crate::error::{Error, Result, probability};

/// The probability that a page cannot be corrected, of code words that fail independently with probability `word`.
///
/// # Errors
/// A rate that is not a probability.
pub fn page_error_rate(word: f64, words_per_page: u32) -> Result<f64> {
    probability("word", word)?;
    Ok(any_of(word, words_per_page))
}

/// The probability that a page is lost (UPER) in a stripe of `pages` pages, one of them parity: the page cannot be
/// corrected, and neither can at least one of the others. `page` is the page error rate.
///
/// # Errors
/// A rate that is not a probability, or a stripe of fewer than two pages.
pub fn loss_rate_in_stripe(page: f64, pages: u32) -> Result<f64> {
    probability("page", page)?;
    if pages < 2 {
        return Err(Error::new("pages", format!("a stripe of {pages} pages has no parity page beside data")));
    }
    Ok(page * any_of(page, pages - 1))
}

/// The probability of at least one of `count` independent events: 1 - (1 - p)^count without cancellation.
fn any_of(probability: f64, count: u32) -> f64 {
    if count == 0 { 0.0 } else { -(f64::from(count) * (-probability).ln_1p()).exp_m1() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_and_impossible_errors() {
        assert_eq!(page_error_rate(1.0, 4), Ok(1.0));
        assert_eq!(page_error_rate(0.0, 4), Ok(0.0));
        assert_eq!(page_error_rate(0.5, 2), Ok(0.75));
        assert_eq!(loss_rate_in_stripe(0.5, 2), Ok(0.25));
        assert!(loss_rate_in_stripe(0.5, 1).is_err());
        assert!(page_error_rate(-0.1, 1).is_err());
    }
}
