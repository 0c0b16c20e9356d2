//! `--slow-member`: a member made slow on purpose.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use sinew_engine::pool::Candidate;
use sinew_uring::{Devices, Spikes};

/// A member, by its place among those given, and its spikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlowMember {
    member: usize,
    spikes: Spikes,
}

/// As `2:period=200ms,length=50ms,height=20ms`.
pub(crate) fn parse(text: &str) -> Result<SlowMember> {
    let how = "say it as 2:period=200ms,length=50ms,height=20ms";
    let (member, rest) = text.split_once(':').context(how)?;
    let member = member.parse().with_context(|| format!("{member} is not the number of a member; {how}"))?;
    let (mut period, mut length, mut height) = (None, None, None);
    for part in rest.split(',') {
        let (name, value) = part.split_once('=').context(how)?;
        let place = match name {
            "period" => &mut period,
            "length" => &mut length,
            "height" => &mut height,
            _ => bail!("{name}: {how}"),
        };
        *place = Some(duration(value)?);
    }
    let (Some(period), Some(length), Some(height)) = (period, length, height) else { bail!("{how}") };
    if length > period {
        bail!("a spike is not longer than the period in which it comes again");
    }
    Ok(SlowMember { member, spikes: Spikes { period, length, height } })
}

fn duration(text: &str) -> Result<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().with_context(|| format!("{text} is not a time such as 20ms"))?;
    match &text[digits.len()..] {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        _ => bail!("{text}: a time is in us, ms or s"),
    }
}

/// Makes members slow, before the pool is opened on them.
pub(crate) fn apply(devices: &Devices, members: &[Candidate], slow: &[SlowMember]) -> Result<()> {
    for SlowMember { member, spikes } in slow {
        let candidate = members.get(*member).with_context(|| {
            format!("there is no member {member} to make slow: {} are given, from 0", members.len())
        })?;
        devices.slow_down(candidate.device, *spikes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_done() {
        let slow = parse("2:period=200ms,height=20ms,length=50ms").unwrap();
        assert_eq!((slow.member, slow.spikes.height), (2, Duration::from_millis(20)));
        for wrong in
            ["2", "x:period=1s,length=1ms,height=1ms", "2:period=1s", "2:period=1ms,length=1s,height=1ms"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(
            parse("1:period=1s,length=1ms,height=5").is_err_and(|e| e.to_string().contains("us, ms or s"))
        );
    }
}
