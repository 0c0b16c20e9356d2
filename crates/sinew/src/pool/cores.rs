//! Lists of processor cores, as taskset and the kernel write them: `0-3,6`.

use anyhow::{Context, Result, bail};

/// Cores named one by one, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CoreList(pub(crate) Vec<usize>);

/// Reads a list of numbers and ranges.
///
/// # Errors
/// When the text is no such list.
pub(crate) fn parse(text: &str) -> Result<CoreList> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let number = |s: &str| {
            s.trim().parse::<usize>().with_context(|| format!("{part} is not a core or a range of cores"))
        };
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last < first || last >= 4096 {
            bail!("{part} is not a range of cores");
        }
        cores.extend((first..=last).filter(|core| !cores.contains(core)).collect::<Vec<_>>());
    }
    Ok(CoreList(cores))
}

/// The cores this process may use.
pub(crate) fn allowed() -> CoreList {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.and_then(|list| parse(list).ok()).unwrap_or_else(|| {
        CoreList((0..std::thread::available_parallelism().map_or(1, usize::from)).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        assert_eq!(parse("0-2,5, 7").unwrap().0, [0, 1, 2, 5, 7]);
        assert_eq!(parse("3,3,2-3").unwrap().0, [3, 2]);
        for wrong in ["", "a", "3-1", "1,,2", "0-99999999"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(!allowed().0.is_empty());
    }
}
