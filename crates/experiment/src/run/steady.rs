//! When a load has become steady: flash amplification and p99 of windows do not change any more.
//!
//! The rule is that of SNIA's performance test specification for solid-state storage, with a number of windows and a bound that
//! the file gives: over the last windows, each figure lies within the bound of its mean.

use crate::file::spec::SteadySpec;
use crate::results::simulated::Part;

/// Windows that must be alike.
const WINDOWS: usize = 3;

/// The figures that must be steady.
fn figures(part: &Part) -> [Option<f64>; 3] {
    let time = |ns: Option<u64>| ns.map(|ns| ns as f64);
    [part.flash_amplification, time(part.read_p99_ns), time(part.write_p99_ns)]
}

/// Whether the last windows are alike within the bound of the file: each figure that all of them have is, and there is one.
pub(crate) fn is_steady(spec: &SteadySpec, windows: &[Part]) -> bool {
    let Some(last) = windows.len().checked_sub(WINDOWS).map(|from| &windows[from..]) else {
        return false;
    };
    let is_alike = |values: Vec<f64>| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().all(|value| (value - mean).abs() <= spec.within * mean)
    };
    let values =
        |figure: usize| last.iter().map(|window| figures(window)[figure]).collect::<Option<Vec<f64>>>();
    let known: Vec<bool> = (0..3).filter_map(values).map(is_alike).collect();
    !known.is_empty() && !known.contains(&false)
}

/// By how much the figures of the last part differ from those of the first, at most, as a fraction of the first. Nothing if
/// there is one part alone, or no figure that both have.
pub(crate) fn change(parts: &[Part]) -> Option<f64> {
    let [first, .., last] = parts else { return None };
    let both = figures(first).into_iter().zip(figures(last));
    let both = both.filter_map(|(first, last)| Some((first.filter(|&first| first > 0.0)?, last?)));
    both.map(|(first, last)| (last / first - 1.0).abs()).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(amplification: f64, write_p99_ns: u64) -> Part {
        Part { flash_amplification: Some(amplification), read_p99_ns: None, write_p99_ns: Some(write_p99_ns) }
    }

    #[test]
    fn three_windows_alike_are_steady() {
        let spec = SteadySpec { window_s: 1.0, within: 0.05, max_s: 100.0 };
        let mut windows = vec![part(3.0, 900), part(2.0, 500), part(2.02, 510)];
        assert!(!is_steady(&spec, &windows));
        windows.push(part(1.98, 490));
        assert!(is_steady(&spec, &windows) && !is_steady(&spec, &windows[2..]));
        windows.push(part(1.98, 600));
        assert!(!is_steady(&spec, &windows));
        assert!(!is_steady(&spec, &vec![Part::default(); 3]), "nothing is known");
    }

    #[test]
    fn the_largest_change_counts() {
        let quarters = [part(2.0, 500), part(9.0, 9), part(2.1, 700)];
        assert!((change(&quarters).unwrap() - 0.4).abs() < 1e-9);
        assert_eq!((change(&quarters[..1]), change(&[Part::default(), part(1.0, 1)])), (None, None));
    }
}
