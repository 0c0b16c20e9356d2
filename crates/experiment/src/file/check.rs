//! The checks of a file that need no run: ranges of values, settings that exclude each other, and published figures that
//! select no run. Each error names the setting by its path.

use sinew_engine::pool::preset::Part;
use sinew_format::model::config::WEIGHTS;
use sinew_layout::LevelName;
use sinew_workload::{ContentSpec, Pace};

use crate::file::band::Band;
use crate::file::drive::DriveSpec;
use crate::file::fails::ReplacementName;
use crate::file::growth::GrowthSpec;
use crate::file::head::{CaseSpec, Head};
use crate::file::names::{
    GivenThresholds, LengthsName, ModelName, PresetName, RedundancyName, SpikeAvoidanceSpec, TargetName,
};
use crate::file::overrides::Overrides;
use crate::file::published::{PublishedValue, RunSelector};
use crate::file::spec::{
    ArraySpec, LayerSpec, MemberSpec, PolicySpec, PoolSpec, RedundancySpec, RunSpec, Spec,
};
use crate::{Error, Result};

/// The longest simulated time: the models count at most 52 days.
const TIME_MAX_S: f64 = 86_400.0 * 30.0;

/// The smallest buffer of non-volatile memory: it holds one client request.
const BUFFER_BYTES_MIN: u64 = 1 << 20;

/// The most intervals of a time series: more than a report can show.
const INTERVALS_MAX: f64 = 100_000.0;

impl Spec {
    /// Checks the whole file except its workload.
    pub(crate) fn check(&self) -> Result<()> {
        self.run.check()?;
        if self.members.iter().all(|group| group.count == 0) {
            return Err(Error::setting("members", "the list is empty"));
        }
        for (i, group) in self.members.iter().enumerate() {
            group.check(i)?;
        }
        if self.volumes.is_empty() {
            return Err(Error::setting("volumes", "the list is empty"));
        }
        self.check_preset()?;
        self.check_controllers()?;
        self.check_array()?;
        self.check_fails()?;
        self.check_capacity()?;
        self.check_pool()?;
        self.check_member_weights()?;
        for (i, volume) in self.volumes.iter().enumerate() {
            if volume.size.0 == 0 || !volume.size.0.is_multiple_of(4096) {
                let why = format!("{} bytes are not a multiple of 4096", volume.size.0);
                return Err(Error::setting(format!("volumes.{i}.size"), why));
            }
            at_least_zero(&format!("volumes.{i}.overwrite"), volume.overwrite)?;
            let unit = volume.overwrite_unit.0;
            if unit == 0 || !unit.is_multiple_of(4096) || unit > volume.size.0 {
                let why =
                    format!("{unit} bytes are not a multiple of 4096, or exceed the size of the volume");
                return Err(Error::setting(format!("volumes.{i}.overwrite_unit"), why));
            }
        }
        let issues_none =
            |pace| matches!(pace, Pace::Closed { depth: 0 } | Pace::Timed { in_flight_max: Some(0) });
        if self.clients().any(|clients| issues_none(clients.pace)) {
            return Err(Error::setting("pace", "at least one request must be allowed in flight"));
        }
        for (i, clients) in self.beside.iter().enumerate() {
            at_least_zero(&format!("beside.{i}.starts_s"), clients.starts_s)?;
        }
        Ok(())
    }

    fn check_preset(&self) -> Result<()> {
        let Some(PresetName(preset)) = self.preset else {
            let is_set = self.layer != LayerSpec::default();
            return if is_set { Err(Error::setting("layer", "only a preset has a layer")) } else { Ok(()) };
        };
        let PoolSpec { shards, throttle, spike_avoidance, battery, policy, .. } = self.pool.clone();
        let allowed = PoolSpec { shards, throttle, spike_avoidance, battery, policy, ..PoolSpec::default() };
        let is_allowed = self.target == TargetName::default() && self.pool == allowed;
        // An elastic array has settings of its size and of conversions; the preset sets the forms.
        let elastic = self.elastic().and(self.array.elastic);
        let level = if elastic.is_some() { LevelName::Raid5 } else { ArraySpec::default().level };
        let is_allowed = is_allowed && self.array == ArraySpec { level, elastic, ..ArraySpec::default() };
        let sets_forms = elastic.is_some_and(|elastic| elastic.govern || elastic.mirrored_share.is_some());
        if !is_allowed || sets_forms {
            let why = "a preset defines target, pool and array; only shards, throttle, spike_avoidance, battery and policy of pool can be set with it, and of an elastic array expect, convert_to, convert_rate, low, high, interval_ms and weigh";
            return Err(Error::setting("preset", why));
        }
        if self.grows.is_some() {
            return Err(Error::setting("grows", "a preset cannot grow"));
        }
        let members = self.member_count();
        preset.compose(members, true).map_err(|why| Error::setting("preset", why.to_string()))?;
        if self.layer.buffer.0 < BUFFER_BYTES_MIN {
            return Err(Error::setting("layer.buffer", "the buffer must have at least 1 MiB"));
        }
        if !(0.01..0.9).contains(&self.layer.spare) {
            return Err(Error::setting(
                "layer.spare",
                "the value is a fraction of the array, from 0.01 to 0.9",
            ));
        }
        Ok(())
    }

    fn check_member_weights(&self) -> Result<()> {
        let Some(weights) = &self.pool.member_weights else { return Ok(()) };
        let wrong = |why: &str| Err(Error::setting("pool.member_weights", why));
        let members = self.member_count();
        if self.target != TargetName::Pool || self.preset.is_some() || self.grows.is_some() {
            return wrong("only members of a mapped pool without a preset that does not grow have weights");
        }
        if weights.len() != members || !weights.iter().all(|weight| WEIGHTS.contains(weight)) {
            return wrong("give a percentage from 1 to 100 for each member");
        }
        Ok(())
    }

    fn check_fails(&self) -> Result<()> {
        let Some(fails) = &self.fails else { return Ok(()) };
        let members = self.member_count();
        let replaces = matches!(fails.replace, ReplacementName::New | ReplacementName::Spare);
        if self.preset.is_some() || self.target == TargetName::Member || self.grows.is_some() {
            let why = "only a pool or an array without a preset that does not grow can lose a member";
            return Err(Error::setting("fails", why));
        }
        if fails.member + usize::from(replaces) >= members {
            let why = format!("there is no member {} beside what replaces it", fails.member);
            return Err(Error::setting("fails.member", why));
        }
        if !(0.0..=self.run.duration_s).contains(&fails.at_s) {
            return Err(Error::setting("fails.at_s", "the member fails during the measured time"));
        }
        let (of_arrays, is_array) =
            (fails.replace == ReplacementName::Spare, self.target == TargetName::Array);
        if of_arrays && !is_array || fails.replace == ReplacementName::FreeSpace && is_array {
            let why = "only an array has spares, and only a mapped pool rebuilds into free space";
            return Err(Error::setting("fails.replace", why));
        }
        let Some(loss) = &fails.loss else { return Ok(()) };
        if fails.replace == ReplacementName::None {
            return Err(Error::setting("fails.loss", "nothing is rebuilt, so no rate is measured"));
        }
        loss.check_without_rate()
    }

    fn check_capacity(&self) -> Result<()> {
        let Some(capacity) = &self.capacity else { return Ok(()) };
        if matches!(self.pace, Pace::Closed { .. }) {
            let why = "a closed loop offers no more than is served; measure its rate";
            return Err(Error::setting("capacity", why));
        }
        if !self.beside.is_empty() {
            let why = "the search varies the speed of `workload` alone; put all requests into it, as a mix";
            return Err(Error::setting("capacity", why));
        }
        let ends_early = self.elastic().is_some_and(|elastic| elastic.convert_to.is_some());
        if self.grows.is_some() || self.fails.is_some() || ends_early {
            let why = "a system that grows, converts or loses a member has no single capacity";
            return Err(Error::setting("capacity", why));
        }
        capacity.check()
    }

    fn check_controllers(&self) -> Result<()> {
        for (i, controller) in self.controllers.iter().enumerate() {
            let setting = |name| format!("controllers.{i}.{name}");
            if controller.members == 0 {
                return Err(Error::setting(setting("members"), "a controller has at least one member"));
            }
            if controller.iops.is_some_and(|iops| !(1.0..=1e9).contains(&iops)) {
                return Err(Error::setting(
                    setting("iops"),
                    "the limit is from 1 to 1e9 commands per second",
                ));
            }
            if controller.bandwidth.is_some_and(|rate| rate.0 == 0) {
                return Err(Error::setting(setting("bandwidth"), "the limit is at least 1 byte per second"));
            }
        }
        let (members, behind): (usize, usize) =
            (self.member_count(), self.controllers.iter().map(|controller| controller.members).sum());
        if behind > members {
            let why = format!("{behind} members are behind controllers, but there are {members}");
            return Err(Error::setting("controllers", why));
        }
        Ok(())
    }

    fn check_pool(&self) -> Result<()> {
        if let Some(SpikeAvoidanceSpec::Given(GivenThresholds { late_s, up, down })) =
            self.pool.spike_avoidance
            && !(late_s > 1e-6 && late_s < TIME_MAX_S && down < up)
        {
            let why = "late_s must be above 1 us, and up must be greater than down";
            return Err(Error::setting("pool.step_around", why));
        }
        let is_mapped = match self.preset {
            Some(PresetName(preset)) => matches!(preset.part, Part::Mapped(_)),
            None => self.target == TargetName::Pool,
        };
        if !is_mapped && self.pool.policy != PolicySpec::default() {
            return Err(Error::setting("pool.policy", "only a mapped pool has a policy"));
        }
        if self.pool.policy.convert_below_free.is_some_and(|percent| percent > 100) {
            return Err(Error::setting("pool.policy.convert_below_free", "the value is a percentage"));
        }
        Ok(())
    }

    fn check_array(&self) -> Result<()> {
        if self.array.level != LevelName::Raid1 || self.grows.is_some() {
            check_level("array.level", self.array.level)?;
        }
        let is_array = self.target == TargetName::Array;
        self.check_elastic(is_array)?;
        if is_array && self.volumes.len() != 1 {
            return Err(Error::setting("volumes", "an array has exactly one volume"));
        }
        let Some(grows) = &self.grows else { return Ok(()) };
        let members = self.member_count();
        let added: usize = grows.added.iter().sum();
        if self.target == TargetName::Member {
            return Err(Error::setting("grows", "a single member cannot grow"));
        }
        if is_array != grows.method.is_some() {
            return Err(Error::setting("grows.method", "an array needs a method, and a pool has none"));
        }
        if grows.added.is_empty() || grows.added.contains(&0) {
            return Err(Error::setting("grows.added", "each addition must have at least one member"));
        }
        if added >= members {
            return Err(Error::setting(
                "grows.added",
                format!("{added} of {members} members are added, which leaves none to begin with"),
            ));
        }
        Ok(())
    }
}

impl Spec {
    fn check_elastic(&self, is_array: bool) -> Result<()> {
        for (i, volume) in self.volumes.iter().enumerate() {
            if !(volume.fill_part > 0.0 && volume.fill_part <= 1.0) {
                return Err(Error::setting(
                    format!("volumes.{i}.fill_part"),
                    "the value is above 0 and at most 1",
                ));
            }
        }
        let members = self.member_count();
        if self.array.out > 0 && (!is_array || self.array.out >= members) {
            return Err(Error::setting(
                "array.out",
                "only members of an array are taken out, and not all of them",
            ));
        }
        let is_tagged =
            self.clients().all(|clients| matches!(clients.content, Some(ContentSpec::Tagged { .. })));
        let reads_tags = |group: &MemberSpec| group.lengths == Some(LengthsName::Tagged);
        if let Some(i) = self.members.iter().position(reads_tags).filter(|_| !is_tagged) {
            let why = "only content that is tagged says its length: `content = { tagged = { ratio = 0.5 } }`";
            return Err(Error::setting(format!("members.{i}.lengths"), why));
        }
        if self.clients().any(|clients| clients.content.is_some()) && self.preset.is_some() {
            return Err(Error::setting("content", "the layers of presets write zeros"));
        }
        self.array.full_level()?;
        if self.array.parity_weights.is_some() && (!is_array || self.grows.is_some()) {
            let why = "only an array that does not grow has weights, and the target is none";
            return Err(Error::setting("array.parity_weights", why));
        }
        let Some(elastic) = self.elastic() else { return Ok(()) };
        let setting = |name: &str| format!("array.elastic.{name}");
        if !is_array && self.preset.is_none() {
            return Err(Error::setting("array.elastic", "the target is not an array"));
        }
        let shares = [("mirrored_share", elastic.mirrored_share), ("convert_to", elastic.convert_to)];
        if let Some((name, _)) = shares.iter().find(|(_, share)| share.is_some_and(|share| share > 100)) {
            return Err(Error::setting(setting(name), "the value is a percentage"));
        }
        if elastic.govern && shares.iter().any(|(_, share)| share.is_some()) {
            return Err(Error::setting(setting("govern"), "either the governor or a share sets the forms"));
        }
        if elastic.convert_to.is_some() && elastic.mirrored_share == elastic.convert_to {
            return Err(Error::setting(setting("convert_to"), "the stripes have that share already"));
        }
        match elastic.policy(elastic.mirrored_share).fault() {
            Some(fault) => Err(Error::setting("array.elastic", fault)),
            None => Ok(()),
        }
    }
}

impl RunSpec {
    fn check(&self) -> Result<()> {
        for (name, seconds) in [("run.duration_s", self.duration_s), ("run.interval_s", self.interval_s)] {
            if !(seconds > 0.0 && seconds < TIME_MAX_S) {
                return Err(Error::setting(name, format!("{seconds} is not a positive time below 30 days")));
            }
        }
        at_least_zero("run.warm_up_s", self.warm_up_s)?;
        if let Some(steady) = &self.steady {
            let times = [("run.steady.window_s", steady.window_s), ("run.steady.max_s", steady.max_s)];
            for (name, seconds) in times {
                if !(seconds > 0.0 && seconds < TIME_MAX_S) {
                    let why = format!("{seconds} is not a positive time below 30 days");
                    return Err(Error::setting(name, why));
                }
            }
            if !(steady.within > 0.0 && steady.within < 1.0) {
                return Err(Error::setting("run.steady.within", "the value is a fraction between 0 and 1"));
            }
        }
        if self.duration_s / self.interval_s > INTERVALS_MAX {
            let why = format!("{} s are more than {INTERVALS_MAX} intervals", self.duration_s);
            return Err(Error::setting("run.interval_s", why));
        }
        if self.seeds.is_empty() {
            return Err(Error::setting("run.seeds", "the list is empty"));
        }
        Ok(())
    }
}

impl MemberSpec {
    fn check(&self, index: usize) -> Result<()> {
        let setting = |name: &str| format!("members.{index}.{name}");
        if let Some(size) = self.size
            && (size.0 == 0 || !size.0.is_multiple_of(4096))
        {
            return Err(Error::setting(
                setting("size"),
                format!("{} bytes are not a multiple of 4096", size.0),
            ));
        }
        if self.stalled > self.count {
            let why = format!("{} of {} members cannot be stalled", self.stalled, self.count);
            return Err(Error::setting(setting("stalled"), why));
        }
        at_least_zero(&setting("aging"), self.aging.unwrap_or(0.0))?;
        at_least_zero(&setting("spare"), self.spare.unwrap_or(0.0))?;
        at_least_zero(&setting("redundancy.wait_ms"), self.redundancy.wait_ms)?;
        if let Some(slc) = self.drive.slc_cache {
            at_least_zero(&setting("drive.slc_cache.sense_us"), slc.sense_us)?;
            at_least_zero(&setting("drive.slc_cache.program_us"), slc.program_us)?;
            at_least_zero(&setting("drive.slc_cache.fold_after_ms"), slc.fold_after_ms)?;
        }
        if self.physical.is_none() && self.lengths.is_some() {
            let why = "lengths count where members have `physical` space";
            return Err(Error::setting(setting("lengths"), why));
        }
        if let Some(granule) = self.drive.granule {
            let setting = setting("drive.granule");
            if !(128..=4096).contains(&granule.0) || !granule.0.is_power_of_two() {
                return Err(Error::setting(setting, "the value is 128, 256, 512, 1024, 2048 or 4096 bytes"));
            }
            if self.physical.is_none() || self.aging.is_some() {
                let why = "the drive needs `physical` space, and has no history: leave out `aging`";
                return Err(Error::setting(setting, why));
            }
        }
        let is_disk = matches!(self.model, ModelName::Ultrastar36z15 | ModelName::Constellation2);
        let of_flash = [
            ("aging", self.aging.is_some()),
            ("spare", self.spare.is_some()),
            ("pages", self.pages.is_some()),
            ("trimmed", self.trimmed),
            ("suspend", self.suspend),
            ("redundancy", self.redundancy != RedundancySpec::default()),
            ("drive", self.drive != DriveSpec::default()),
        ];
        if self.suspend && self.model == ModelName::Consumer {
            return Err(Error::setting(
                setting("suspend"),
                "the consumer drive does not suspend erases: it stops as a whole for them",
            ));
        }
        if self.trimmed && self.redundancy.scheme == RedundancyName::Raid5 {
            let why = "a drive with RAID-5 inside writes parity for discards: it cannot be discarded at once";
            return Err(Error::setting(setting("trimmed"), why));
        }
        match of_flash.iter().find(|(_, given)| is_disk && *given) {
            Some((name, _)) => Err(Error::setting(setting(name), "a disk has no such setting")),
            None => Ok(()),
        }
    }
}

/// Experiments are about levels that can grow.
fn check_level(name: &str, level: LevelName) -> Result<()> {
    match level {
        LevelName::Raid0 | LevelName::Raid10 | LevelName::Raid5 | LevelName::Raid6 => Ok(()),
        other => {
            let why = format!("{other} cannot grow here; use raid0, raid10, raid5 or raid6");
            Err(Error::setting(name, why))
        }
    }
}

fn at_least_zero(name: &str, value: f64) -> Result<()> {
    if value.is_finite() && (0.0..TIME_MAX_S).contains(&value) {
        return Ok(());
    }
    Err(Error::setting(name, format!("{value} is negative or too large")))
}

impl GrowthSpec {
    /// Checks the description, and that the array can be computed.
    pub(crate) fn check(&self) -> Result<()> {
        check_level("growth.level", self.level)?;
        if self.timed && self.level != LevelName::Raid0 {
            return Err(Error::setting("growth.timed", "only the address computation of raid0 can be timed"));
        }
        self.array_after(self.additions).map(drop)
    }
}

fn check_bands(setting: &str, within: Option<Band>, quick_within: Option<Band>) -> Result<()> {
    for (name, band) in [("within", within), ("quick_within", quick_within)] {
        band.map_or(Ok(()), |band| band.check(&format!("{setting}.{name}")))?;
    }
    Ok(())
}

impl Head {
    /// Checks that every published figure and every ratio selects runs, and that its options go together.
    pub(crate) fn check_published(&self, sweeps: &[(CaseSpec, Vec<Overrides>)]) -> Result<()> {
        let count_selected = |selector: &RunSelector| -> usize {
            let of_case = |(case, combinations): &(CaseSpec, Vec<Overrides>)| {
                combinations.iter().filter(|swept| selector.selects(case.name(), swept)).count()
            };
            sweeps.iter().map(of_case).sum()
        };
        for (i, ratio) in self.ratios.iter().enumerate() {
            check_bands(&format!("ratios.{i}"), ratio.within, ratio.quick_within)?;
            for (name, selector) in [("of", &ratio.of), ("over", &ratio.over)] {
                if count_selected(selector) == 0 {
                    return Err(Error::setting(format!("ratios.{i}.{name}"), "there is no such run"));
                }
            }
            if ratio.over == RunSelector::default() {
                let why = "it names neither a case nor swept values, so each run is divided by itself";
                return Err(Error::setting(format!("ratios.{i}.over"), why));
            }
        }
        for (i, published) in self.references.iter().enumerate() {
            let setting = format!("references.{i}");
            check_bands(&setting, published.within, published.quick_within)?;
            for (name, selector) in [("of", Some(&published.of)), ("over", published.over.as_ref())] {
                let Some(selector) = selector else { continue };
                let setting = format!("{setting}.{name}");
                let selected = count_selected(selector);
                if selected == 0 {
                    return Err(Error::setting(setting, "there is no such run"));
                }
                if name == "over" && selected > 1 && !published.has_wildcard() {
                    let why = "it selects several combinations of case and swept values, not one";
                    return Err(Error::setting(setting, why));
                }
            }
            if let PublishedValue::Predicted { block_writes } = &published.published {
                for (name, case) in [("writes", &block_writes.writes), ("reads", &block_writes.reads)] {
                    if !self.cases.iter().any(|known| known.name == *case) {
                        let setting = format!("{setting}.published.block_writes.{name}");
                        return Err(Error::setting(setting, format!("there is no case {case}")));
                    }
                }
            }
            if published.has_wildcard() && (published.divided_by.is_some() || published.highest) {
                let why = "a figure with * cannot have divided_by or highest";
                return Err(Error::setting(setting, why));
            }
            if published.has_wildcard()
                && !matches!(published.published, PublishedValue::Number(_) | PublishedValue::Range(_))
            {
                let why = "the published value of a figure with * cannot come from runs";
                return Err(Error::setting(setting, why));
            }
        }
        Ok(())
    }
}
