//! `--fault-member`: injected faults: members that are slow, hang, fail, or return wrong data. docs/fault-members.md is the
//! manual.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sinew_devices::flash::{self, Redundancy, Striping};
use sinew_engine::pool::Candidate;
use sinew_uring::{Chance, Damage, Devices, DriveModel, Fault, Side, Silence, Spikes};

use crate::out::complain;
use crate::units;

/// The syntax, for messages.
const HOW: &str = "write MEMBER:FAULT,NAME=VALUE,…, for example 2:spikes,period=200ms,length=50ms,height=20ms or \
                   2:read-errors,rate=0.01; faults are spikes, hang, latency, read-errors, write-errors, corrupt-reads, \
                   corrupt-writes (docs/fault-members.md)";
/// Places of errors and corruption are whole blocks of the member.
const BLOCK: u64 = 4096;

/// A drive's name and what it is.
type Named = (&'static str, fn() -> flash::Config);

/// The flash models.
const MODELS: [Named; 6] = [
    ("datacenter", flash::datacenter),
    ("consumer", flash::consumer),
    ("slc", flash::slc),
    ("mqsim", flash::mqsim),
    ("femu", flash::femu),
    ("pitfalls", flash::pitfalls),
];

/// A member, by its place among those given, and its fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FaultMember {
    member: usize,
    fault: Fault,
}

/// As `2:read-errors,rate=0.01`.
///
/// # Errors
/// When the text describes no fault.
pub(crate) fn parse(text: &str) -> Result<FaultMember> {
    let (member, rest) = text.split_once(':').context(HOW)?;
    let member = member.parse().with_context(|| format!("{member} is not the number of a member; {HOW}"))?;
    let (kind, rest) = rest.split_once(',').unwrap_or((rest, ""));
    let mut settings = Settings::parse(rest)?;
    let fault = match kind {
        "spikes" => Fault::Spikes(spikes(&mut settings)?),
        "hang" | "silence" => Fault::Silence(Silence {
            after: settings.take("after", units::parse_time)?.unwrap_or_default(),
            length: settings.take("length", units::parse_time)?,
        }),
        "latency" => Fault::Latency(Box::new(drive(&mut settings)?)),
        "read-errors" => Fault::Errors(Side::Reads, chance(&mut settings)?),
        "write-errors" => Fault::Errors(Side::Writes, chance(&mut settings)?),
        "corrupt-reads" => Fault::Corruption(Side::Reads, chance(&mut settings)?, damage(&mut settings)?),
        "corrupt-writes" => Fault::Corruption(Side::Writes, chance(&mut settings)?, damage(&mut settings)?),
        _ => bail!("there is no fault {kind}; {HOW}"),
    };
    settings.end(kind)?;
    Ok(FaultMember { member, fault })
}

/// Names and values that have not been asked for yet.
struct Settings(BTreeMap<String, String>);

impl Settings {
    fn parse(text: &str) -> Result<Settings> {
        let mut settings = BTreeMap::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').with_context(|| format!("{part}: {HOW}"))?;
            let before = settings.insert(name.to_owned(), value.to_owned());
            ensure!(before.is_none(), "{name} is said twice");
        }
        Ok(Settings(settings))
    }

    fn take<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T>) -> Result<Option<T>> {
        self.0.remove(name).map(|value| read(&value).with_context(|| format!("{name}={value}"))).transpose()
    }

    fn need<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        self.take(name, read)?.with_context(|| format!("{name} is missing; {HOW}"))
    }

    fn end(self, kind: &str) -> Result<()> {
        match self.0.keys().next() {
            Some(name) => bail!("{kind} has no {name}; {HOW}"),
            None => Ok(()),
        }
    }
}

fn spikes(settings: &mut Settings) -> Result<Spikes> {
    let spikes = Spikes {
        period: settings.need("period", units::parse_time)?,
        length: settings.need("length", units::parse_time)?,
        height: settings.need("height", units::parse_time)?,
    };
    ensure!(!spikes.period.is_zero(), "spikes come again after some time: period is 0");
    ensure!(spikes.length <= spikes.period, "a spike is not longer than the period in which it comes again");
    Ok(spikes)
}

fn drive(settings: &mut Settings) -> Result<DriveModel> {
    let (name, mut config) = settings.need("model", model)?;
    let pages = settings.take("pages", |text| {
        let pages: u32 = text.parse()?;
        ensure!((16..=4096).contains(&pages), "erase blocks have 16 to 4096 pages");
        Ok(pages)
    })?;
    config.pages = pages.unwrap_or(config.pages);
    let spare = config.alpha() - 1.0;
    let blocks = config.blocks;
    config = flash::Config { redundancy: redundancy(settings)?, ..config }.sized(blocks, spare);
    let aged = settings.take("aged", |text| {
        let times: f64 = text.parse()?;
        ensure!((0.0..=100.0).contains(&times), "a drive is aged by 0 to 100 times its size");
        Ok(times)
    })?;
    Ok(DriveModel { name, config, aged, seed: seed(settings)? })
}

/// Redundancy inside the drive: `redundancy`, and what belongs to it.
fn redundancy(settings: &mut Settings) -> Result<Redundancy> {
    let scheme = settings.take("redundancy", |text| match text {
        "ecc" | "raid5" | "esap" => Ok(text.to_owned()),
        _ => bail!("a redundancy is ecc, raid5 or esap"),
    })?;
    let units = settings.take("stripe", |text| {
        let units: u32 = text.parse()?;
        ensure!((2..=64).contains(&units), "a stripe has 2 to 64 elements, the parity included");
        Ok(units)
    })?;
    let wait = settings.take("parity-wait", units::parse_time)?;
    let scheme = scheme.as_deref().unwrap_or("ecc");
    ensure!(
        scheme != "ecc" || (units.is_none() && wait.is_none()),
        "stripe and parity-wait need redundancy=raid5 or redundancy=esap"
    );
    let wait = wait.unwrap_or(Duration::from_millis(50));
    let striping = Striping::new(units.unwrap_or(8), wait.as_nanos() as u64);
    Ok(match scheme {
        "raid5" => Redundancy::Raid5(striping),
        "esap" => Redundancy::Elastic(striping),
        _ => Redundancy::EccOnly,
    })
}

fn model(text: &str) -> Result<(&'static str, flash::Config)> {
    let found = MODELS.iter().find(|(name, _)| *name == text).map(|(name, config)| (*name, config()));
    found.with_context(|| {
        let names: Vec<&str> = MODELS.iter().map(|(name, _)| *name).collect();
        format!("there is no such model; models are {}", names.join(", "))
    })
}

fn chance(settings: &mut Settings) -> Result<Chance> {
    let rate = settings.take("rate", |text| {
        let rate: f64 = text.parse()?;
        ensure!(rate > 0.0 && rate <= 1.0, "a rate is a part of all requests: above 0, at most 1");
        Ok(rate)
    })?;
    let range = settings.take("range", range)?;
    let after = settings.take("after", |text| Ok(text.parse::<u64>()?))?;
    ensure!(
        rate.is_some() || range.is_some() || after.is_some(),
        "say which requests: rate=0.01 (a part of them), range=64M-65M (of the member), after=1000 (requests let through first), or several"
    );
    Ok(Chance {
        rate: rate.unwrap_or(1.0),
        range: range.unwrap_or(0..u64::MAX),
        after: after.unwrap_or(0),
        seed: seed(settings)?,
    })
}

fn seed(settings: &mut Settings) -> Result<u64> {
    Ok(settings.take("seed", |text| Ok(text.parse::<u64>()?))?.unwrap_or(0))
}

fn damage(settings: &mut Settings) -> Result<Damage> {
    let damage = settings.take("unit", |text| match text {
        "bit" => Ok(Damage::Bit),
        "sector" => Ok(Damage::Sector),
        _ => bail!("a unit is bit or sector"),
    })?;
    Ok(damage.unwrap_or_default())
}

fn range(text: &str) -> Result<Range<u64>> {
    let (from, to) = text.split_once('-').context("a range is as 64M-65M")?;
    let (from, to) = (units::parse_size(from)?, units::parse_size(to)?);
    ensure!(from < to, "a range ends after it begins");
    ensure!(from % BLOCK == 0 && to % BLOCK == 0, "a range begins and ends at multiples of {BLOCK}");
    Ok(from..to)
}

/// Injects faults into members, before the pool is opened on them, and says so.
///
/// # Errors
/// When there is no such member, or the fault does not fit on it.
pub(crate) fn give(devices: &Devices, members: &[Candidate], faulty: &[FaultMember]) -> Result<()> {
    let mut each: BTreeMap<usize, Vec<Fault>> = BTreeMap::new();
    for FaultMember { member, fault } in faulty {
        each.entry(*member).or_default().push(fault.clone());
    }
    for (member, faults) in each {
        let candidate = members.get(member).with_context(|| {
            format!("there is no member {member} to have faults: {} are given, from 0", members.len())
        })?;
        let bytes = devices.bytes(candidate.device).unwrap_or(0);
        for fault in &faults {
            possible(fault, bytes).with_context(|| format!("fault of {}", candidate.path))?;
            complain!("INJECTED FAULT: {}: {fault}", candidate.path);
        }
        devices.give_faults(candidate.device, faults);
    }
    Ok(())
}

/// Whether a member of this size can have it.
fn possible(fault: &Fault, bytes: u64) -> Result<()> {
    match fault {
        Fault::Latency(model) => {
            model.sized(bytes)?.check_redundancy().map_err(anyhow::Error::msg)?;
        }
        Fault::Errors(_, chance) | Fault::Corruption(_, chance, _) => {
            let start = chance.range.start;
            ensure!(start < bytes, "range begins at {start}, and the member has {bytes} bytes");
        }
        Fault::Spikes(_) | Fault::Silence(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_done() {
        let fault = |text: &str| parse(text).map(|f| (f.member, f.fault.to_string())).unwrap();
        assert_eq!(
            fault("2:spikes,period=200ms,height=20ms,length=50ms"),
            (2, "requests take 20ms longer, for 50ms of every 200ms".to_owned())
        );
        assert_eq!(fault("2:silence").1, "nothing is answered after 0ns");
        assert_eq!(fault("2:silence,after=5s,length=30s").1, "nothing is answered for 30s after 5s");
        assert_eq!(fault("0:write-errors,after=100").1, "writes fail: 100 % of them after 100, seed 0");
        assert_eq!(
            fault("1:corrupt-reads,rate=0.5,range=4K-8K,unit=sector,seed=9").1,
            "reads have a wrong sector: 50 % of them at bytes 4096 to 8192, seed 9"
        );
        let aged = fault("3:latency,model=consumer,aged=1.5,pages=64,seed=2").1;
        assert_eq!(
            aged,
            "requests take longer by what they would on a consumer SSD aged by 1.5 times its size, seed 2"
        );
    }

    #[test]
    fn the_earlier_name_of_a_hang_is_understood() {
        assert_eq!(parse("2:silence,length=8s").unwrap(), parse("2:hang,length=8s").unwrap());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (wrong, says) in [
            ("2", "write MEMBER"),
            ("x:spikes,period=1s,length=1ms,height=1ms", "not the number"),
            ("2:spikes,period=1s", "length is missing"),
            ("2:spikes,period=1ms,length=1s,height=1ms", "not longer"),
            ("2:spikes,period=0s,length=0s,height=1ms", "period is 0"),
            ("1:spikes,period=1s,length=1ms,height=5", "a time is in us, ms, s, m or h"),
            ("1:read-errors", "say which requests"),
            ("1:read-errors,rate=2", "part of all"),
            ("1:read-errors,rate=NaN", "part of all"),
            ("1:read-errors,rate=0.1,rate=0.2", "twice"),
            ("1:read-errors,rate=0.1,unit=bit", "no unit"),
            ("1:read-errors,range=8K-4K", "ends after"),
            ("1:read-errors,range=1000-4K", "multiples"),
            ("1:corrupt-writes,rate=1,unit=byte", "bit or sector"),
            ("1:latency,model=floppy", "models are datacenter"),
            ("1:latency,model=slc,aged=-1", "0 to 100"),
            ("1:latency,model=slc,pages=1", "16 to 4096"),
            ("1:tired", "no fault tired"),
        ] {
            let said = parse(wrong).map_or_else(|error| format!("{error:#}"), |_| "nothing".to_owned());
            assert!(said.contains(says), "{wrong} said: {said}");
        }
    }
}
