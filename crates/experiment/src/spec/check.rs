//! What can be found wrong with a file without running anything.

use sinew_engine::pool::preset::Part;
use sinew_workload::Pace;

use super::{
    ArraySpec, LayerSpec, MemberSpec, ModelName, PolicySpec, PoolSpec, PresetName, RunSpec, Spec,
    StepAroundName, TargetName,
};
use crate::{Error, Result};

/// Virtual time ends before the 52 days that the models can count.
const TIME_MAX_S: f64 = 86_400.0 * 30.0;

/// The least non-volatile memory: a request of clients fits.
const BUFFER_LEAST: u64 = 1 << 20;

/// Spans of a run: more than anybody looks at.
const SPANS_MAX: f64 = 100_000.0;

impl Spec {
    /// Finds what can be found without running anything.
    pub(crate) fn check(&self) -> Result<()> {
        self.run.check()?;
        if self.members.iter().all(|group| group.count == 0) {
            return Err(Error::setting("members", "there are none"));
        }
        for (i, group) in self.members.iter().enumerate() {
            group.check(i)?;
        }
        if self.volumes.is_empty() {
            return Err(Error::setting("volumes", "there are none"));
        }
        self.check_preset()?;
        self.check_array()?;
        self.check_pool()?;
        for (i, volume) in self.volumes.iter().enumerate() {
            if volume.size.0 == 0 || !volume.size.0.is_multiple_of(4096) {
                let why = format!("{} bytes are not a multiple of 4096", volume.size.0);
                return Err(Error::setting(format!("volumes.{i}.size"), why));
            }
            at_least_zero(&format!("volumes.{i}.overwrite"), volume.overwrite)?;
            let unit = volume.overwrite_unit.0;
            if unit == 0 || !unit.is_multiple_of(4096) || unit > volume.size.0 {
                let why = format!("{unit} bytes are not a multiple of 4096, or more than the volume has");
                return Err(Error::setting(format!("volumes.{i}.overwrite_unit"), why));
            }
        }
        match self.pace {
            Pace::Closed { depth: 0 } | Pace::Timed { in_flight_max: Some(0) } => {
                Err(Error::setting("pace", "no request may be in flight"))
            }
            _ => Ok(()),
        }
    }

    fn check_preset(&self) -> Result<()> {
        let Some(PresetName(preset)) = self.preset else {
            let is_set = self.layer != LayerSpec::default();
            return if is_set { Err(Error::setting("layer", "only presets have one")) } else { Ok(()) };
        };
        let PoolSpec { shards, throttle, step_around, policy, .. } = self.pool.clone();
        let only_those = PoolSpec { shards, throttle, step_around, policy, ..PoolSpec::default() };
        let is_free = self.target == TargetName::default() && self.pool == only_those;
        if !is_free || self.array != ArraySpec::default() {
            let why = "it says what target, pool and array are; of pool only shards, throttle, step_around and policy go with it";
            return Err(Error::setting("preset", why));
        }
        if self.grows.is_some() {
            return Err(Error::setting("grows", "a preset does not grow"));
        }
        let members = self.members.iter().map(|group| group.count).sum();
        preset.compose(members, true).map_err(|why| Error::setting("preset", why.to_string()))?;
        if self.layer.buffer.0 < BUFFER_LEAST {
            return Err(Error::setting("layer.buffer", "a buffer has 1 MiB or more"));
        }
        if !(0.01..0.9).contains(&self.layer.spare) {
            return Err(Error::setting("layer.spare", "it is a part of the array, from 0.01 to 0.9"));
        }
        Ok(())
    }

    fn check_pool(&self) -> Result<()> {
        if let Some(StepAroundName::Given { late_s, up, down }) = self.pool.step_around
            && !(late_s > 1e-6 && late_s < TIME_MAX_S && down < up)
        {
            let why = "late_s is a time above 1 us, and more stragglers begin a spike than end it";
            return Err(Error::setting("pool.step_around", why));
        }
        let is_mapped = match self.preset {
            Some(PresetName(preset)) => matches!(preset.part, Part::Mapped(_)),
            None => self.target == TargetName::Pool,
        };
        if !is_mapped && self.pool.policy != PolicySpec::default() {
            return Err(Error::setting("pool.policy", "only mapped pools have one"));
        }
        if self.pool.policy.convert_below_free.is_some_and(|percent| percent > 100) {
            return Err(Error::setting("pool.policy.convert_below_free", "it is a percentage"));
        }
        Ok(())
    }

    fn check_array(&self) -> Result<()> {
        let is_array = self.target == TargetName::Array;
        if is_array && self.volumes.len() != 1 {
            return Err(Error::setting("volumes", "an array has one volume"));
        }
        let Some(grows) = &self.grows else { return Ok(()) };
        let members: usize = self.members.iter().map(|group| group.count).sum();
        let added: usize = grows.added.iter().sum();
        if self.target == TargetName::Member {
            return Err(Error::setting("grows", "a member alone does not"));
        }
        if is_array != grows.method.is_some() {
            return Err(Error::setting("grows.method", "an array has one, and a pool has none"));
        }
        if grows.added.is_empty() || grows.added.contains(&0) {
            return Err(Error::setting("grows.added", "each addition has members"));
        }
        if added >= members {
            return Err(Error::setting("grows.added", format!("of {members} members {added} are added")));
        }
        Ok(())
    }
}

impl RunSpec {
    fn check(&self) -> Result<()> {
        for (name, seconds) in [("run.duration_s", self.duration_s), ("run.interval_s", self.interval_s)] {
            if !(seconds > 0.0 && seconds < TIME_MAX_S) {
                return Err(Error::setting(name, format!("{seconds} is not a time above 0")));
            }
        }
        at_least_zero("run.warm_up_s", self.warm_up_s)?;
        if self.duration_s / self.interval_s > SPANS_MAX {
            let why = format!("{} s are cut into more than {SPANS_MAX} spans", self.duration_s);
            return Err(Error::setting("run.interval_s", why));
        }
        if self.seeds.is_empty() {
            return Err(Error::setting("run.seeds", "there are none"));
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
            let why = format!("{} of {} members", self.stalled, self.count);
            return Err(Error::setting(setting("stalled"), why));
        }
        at_least_zero(&setting("aging"), self.aging.unwrap_or(0.0))?;
        at_least_zero(&setting("spare"), self.spare.unwrap_or(0.0))?;
        let is_disk = matches!(self.model, ModelName::Ultrastar36z15 | ModelName::Constellation2);
        let of_flash = [
            ("aging", self.aging.is_some()),
            ("spare", self.spare.is_some()),
            ("pages", self.pages.is_some()),
            ("suspend", self.suspend),
        ];
        if self.suspend && self.model == ModelName::Consumer {
            return Err(Error::setting(
                setting("suspend"),
                "the consumer drive stops for its erases as a whole",
            ));
        }
        match of_flash.iter().find(|(_, given)| is_disk && *given) {
            Some((name, _)) => Err(Error::setting(setting(name), "a disk has no such thing")),
            None => Ok(()),
        }
    }
}

fn at_least_zero(name: &str, value: f64) -> Result<()> {
    if value.is_finite() && (0.0..TIME_MAX_S).contains(&value) {
        return Ok(());
    }
    Err(Error::setting(name, format!("{value} is not 0 or more")))
}
