//! Units: seconds of a file to nanoseconds, and figures as people read them.

/// Seconds in nanoseconds.
pub(crate) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// A time in nanoseconds, in the unit that suits it.
pub(crate) fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        _ if ns < 1e3 => (ns, "ns"),
        _ if ns < 1e6 => (ns / 1e3, "µs"),
        _ if ns < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Bytes in the unit that suits them.
pub(crate) fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..units.len() - 1).find(|&i| bytes < 1024f64.powi(i as i32 + 1)).unwrap_or(units.len() - 1);
    format!("{} {}", three_digits(bytes / 1024f64.powi(power as i32)), units[power])
}

/// A number with about three digits.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == v.trunc() && v >= 1.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ if value == 0.0 => "0".to_owned(),
        _ => format!("{value:.2}"),
    }
}

/// A number with about three digits, and a power of ten where it is very small or very large.
pub(crate) fn magnitude(value: f64) -> String {
    match value.abs() {
        v if v == 0.0 || (0.01..1e5).contains(&v) => three_digits(value),
        _ => format!("{value:.2e}"),
    }
}

/// A fraction of 1 in percent.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_unit_that_suits_them() {
        assert_eq!(
            [time(999.0), time(1500.0), time(2.5e7), time(1e9)],
            ["999 ns", "1.50 µs", "25 ms", "1 s"]
        );
        assert_eq!(
            [magnitude(2.179e-5), magnitude(3.805e6), magnitude(15.27)],
            ["2.18e-5", "3.80e6", "15.3"]
        );
        assert_eq!([bytes(512.0), bytes(1536.0), bytes(8e9)], ["512 B", "1.50 KiB", "7.45 GiB"]);
    }
}
