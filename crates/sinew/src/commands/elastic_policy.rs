//! `sinew array share` and `sinew array policy`: when stripes of an elastic array change their form.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::client::Target;
use crate::out::say;
use crate::protocol::{ElasticChange, Request, Share};
use crate::units;

/// Sets the share of an elastic array's stripes that are mirrored; the others have parity. Mirrored stripes are faster to write
/// and to read while a member is missing, and take more space.
#[derive(Args)]
pub(crate) struct ShareArgs {
    /// The share in percent of the stripes that store data; `none` leaves it to the governor.
    #[arg(value_name = "PERCENT", value_parser = Share::parse)]
    percent: Share,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Sets when stripes of an elastic array change between parity and mirrors. It is kept on the members. Options that are absent
/// change nothing; without options the command shows the policy.
#[derive(Args)]
pub(crate) struct PolicyArgs {
    /// Whether the governor changes forms; otherwise stripes keep the form that they have.
    #[arg(long, value_name = "BOOL")]
    govern: Option<bool>,
    /// The share of mirrored stripes in percent, whatever the physical space; `none` leaves it to the governor.
    #[arg(long, value_name = "PERCENT", value_parser = Share::parse)]
    mirrored_share: Option<Share>,
    /// Used stripes become mirrored while all members use less of their physical space.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    low: Option<u8>,
    /// Stripes get parity while a member uses more of its physical space.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    high: Option<u8>,
    /// Mirrored stripes are exchanged for hotter ones while the share of requests to them is below this many times their share.
    #[arg(long, value_name = "FACTOR", value_parser = parse_factor)]
    hit_factor: Option<u16>,
    /// The physical use counts as steady while ten samples lie within this percentage of the space.
    #[arg(long, value_name = "PERCENT", value_parser = parse_permille)]
    steady: Option<u16>,
    /// Time between two samples of the physical use.
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    interval: Option<Duration>,
    /// Bytes of data per second that are converted, also while clients never pause; `none` to give way to clients.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    convert_rate: Option<u64>,
    /// Whether stripes that compress better are mirrored first, and get parity last.
    #[arg(long, value_name = "BOOL")]
    weigh: Option<bool>,
    /// Whether stripes that take less space mirrored than with parity become mirrored whatever the space.
    #[arg(long, value_name = "BOOL")]
    autonomous: Option<bool>,
    /// Time in which all stripes with parity are looked at for that.
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    autonomous_period: Option<Duration>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

fn parse_factor(text: &str) -> Result<u16, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| (1.0..=100.0).contains(factor) && *factor > 1.0);
    factor.map(|factor| (factor * 100.0).round() as u16).ok_or_else(|| "a number above 1".to_owned())
}

fn parse_permille(text: &str) -> Result<u16, String> {
    let percent =
        text.trim_end_matches('%').parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(|percent| (percent * 10.0).round() as u16).ok_or_else(|| "a number from 0 to 100".to_owned())
}

/// Sets the share of mirrored stripes.
///
/// # Errors
/// When the server cannot be reached, or has no elastic array.
pub(crate) fn share(args: &ShareArgs) -> Result<()> {
    args.target.ask(&Request::ArrayShare { percent: args.percent.percent() })?;
    match args.percent {
        share if args.json => say!("{:#}", json!({ "mirrored_share": share.percent() })),
        Share::Percent(percent) => say!(
            "{percent} % of the stripes that store data become mirrored; `sinew array status` shows them"
        ),
        Share::None => say!("the governor sets the share; `sinew array policy` shows how"),
    }
    Ok(())
}

/// Changes and shows the policy.
///
/// # Errors
/// When the server cannot be reached, has no elastic array, or refuses the policy.
pub(crate) fn policy(args: &PolicyArgs) -> Result<()> {
    let change = ElasticChange {
        share: args.mirrored_share,
        govern: args.govern,
        low: args.low,
        high: args.high,
        hit_factor: args.hit_factor,
        steady: args.steady,
        interval_ms: args.interval.map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX)),
        convert_rate: args.convert_rate,
        weigh: args.weigh,
        autonomous: args.autonomous,
        autonomous_period_s: args
            .autonomous_period
            .map(|time| u32::try_from(time.as_secs()).unwrap_or(u32::MAX)),
    };
    let policy = args.target.ask(&Request::ArrayPolicy { change })?;
    match args.json {
        true => say!("{policy:#}"),
        false => print(&policy),
    }
    Ok(())
}

fn print(policy: &Value) {
    match (policy["mirrored_share"].as_u64(), policy["govern"] == true) {
        (Some(share), _) => say!("forms        {share} % of the stripes are mirrored"),
        (None, false) => say!("forms        stripes keep the form that they have"),
        (None, true) => say!("forms        by the governor"),
    }
    say!("physical     mirrored below {} %, parity above {} %", policy["low"], policy["high"]);
    say!("steady       ten samples within {} %, one in {} ms", policy["steady"], policy["interval_ms"]);
    say!("hit factor   {}", policy["hit_factor"]);
    match policy["convert_rate"].as_u64().unwrap_or(0) {
        0 => say!("conversion   as fast as clients allow"),
        rate => say!("conversion   {} per second", units::bytes(rate)),
    }
    say!("weigh        {}", if policy["weigh"] == true { "by compressibility" } else { "all alike" });
    match policy["autonomous"] == true {
        true => say!("autonomous   all stripes in {} s", policy["autonomous_period_s"]),
        false => say!("autonomous   no"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_and_percentages_are_read() {
        assert_eq!((parse_factor("1.5"), parse_permille("0.5%")), (Ok(150), Ok(5)));
        for wrong in ["1", "0.5", "x", "1000"] {
            assert!(parse_factor(wrong).is_err(), "{wrong}");
        }
        assert!(parse_permille("101").is_err());
    }
}
