//! What is measured: one pool or array of the members, or several of them that a preset is composed of.

use std::rc::Rc;

use sinew_core::io::DeviceId;
use sinew_engine::pool::preset::Layer;
use sinew_engine::pool::{self, Candidate, PoolKind};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::policy::Policy;
use sinew_format::model::pool_geometry::Shape;
use sinew_members::latency::SpikeAvoidance;
use sinew_members::status::ShardStatus;
use sinew_members::throttle::Bounds;
use sinew_sim::{OpenPool, World};

use crate::grow;
use crate::layer::{Layered, Store};
use crate::members::Member;
use crate::spec::{PresetName, ProtectionName, Spec, TargetName};
use crate::target::{Place, Target};
use crate::{Error, Result};

/// The name of each pool or array.
const NAME: &str = "experiment";

/// The pools or arrays of a run, all in one world.
pub(crate) struct System {
    parts: Vec<OpenPool>,
    step_around: SpikeAvoidance,
}

/// What it is to be made of.
struct Composition {
    parts: usize,
    /// Members of each part, one part's after the other's.
    part_members: usize,
    kind: PoolKind,
    step_around: SpikeAvoidance,
    policy: Policy,
    battery: bool,
    layer: Option<Layer>,
}

impl Composition {
    fn of(spec: &Spec, members: usize) -> Result<Composition> {
        if let Some(PresetName(preset)) = spec.preset {
            let composed = preset.compose(members, true);
            let composed = composed.map_err(|why| Error::setting("preset", why.to_string()))?;
            return Ok(Composition {
                parts: composed.parts,
                part_members: composed.part_members,
                kind: composed.kind,
                step_around: spec.pool.step_around.map_or(preset.step_around, SpikeAvoidance::from),
                policy: spec.pool.policy.applied_to(preset.policy),
                battery: preset.battery,
                layer: preset.layer,
            });
        }
        let kind = match spec.target {
            TargetName::Array => PoolKind::Array(ArraySpec {
                level: spec.array.level.into(),
                chunk_bytes: spec.array.chunk.0 as u32,
                journal: spec.array.journal,
                spares: 0,
                zeroed: true,
            }),
            _ => PoolKind::Mapped {
                protection: spec.pool.protection.into(),
                data_columns: spec.pool.width,
                checksums: spec.pool.checksums,
            },
        };
        Ok(Composition {
            parts: 1,
            part_members: grow::first_members(spec, members),
            kind,
            step_around: spec.pool.step_around.unwrap_or_default().into(),
            policy: spec.pool.policy.applied_to(Policy::DEFAULT),
            battery: false,
            layer: None,
        })
    }
}

/// A member as the engine is given it.
pub(crate) fn candidate(number: usize, member: &Member) -> Candidate {
    Candidate { device: member.device, path: format!("member{number}") }
}

fn volume_name(number: usize) -> String {
    format!("volume{number}")
}

impl System {
    /// Makes and opens all parts, and gives the volumes on them.
    pub(crate) fn open(world: &World, spec: &Spec, members: &[Member]) -> Result<(System, Target)> {
        let composition = Composition::of(spec, members.len())?;
        let part = |part| {
            let range = part * composition.part_members..(part + 1) * composition.part_members;
            open_part(world, spec, &composition, part, range.map(|i| candidate(i, &members[i])).collect())
        };
        let parts: Result<Vec<OpenPool>> = (0..composition.parts).map(part).collect();
        let system = System { parts: parts?, step_around: composition.step_around };
        let target = system.target(world, spec, &composition)?;
        Ok((system, target))
    }

    /// The one part there is where no preset is asked for.
    pub(crate) fn only(&self) -> &OpenPool {
        &self.parts[0]
    }

    /// How spikes are looked for.
    pub(crate) fn step_around(&self) -> SpikeAvoidance {
        self.step_around
    }

    /// Members of all parts.
    pub(crate) fn members(&self) -> usize {
        self.parts.iter().map(|part| part.control.config().members.len()).sum()
    }

    /// Bytes of all members, as far as they are used, and of those what is not for chunks.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let (mut all, mut metadata) = (0, 0);
        for part in &self.parts {
            let config = part.control.config();
            let shards = config.shape.shards();
            for member in &config.members {
                all += member.layout.end_bytes(shards);
                metadata += member.layout.metadata(shards).map(|range| range.end - range.start).sum::<u64>();
            }
        }
        (all, metadata)
    }

    /// The state of all parts together.
    pub(crate) fn status(&self, world: &World) -> Result<ShardStatus> {
        let mut sum = ShardStatus::default();
        for part in &self.parts {
            let control = Rc::clone(&part.control);
            let status = world.block_on(async move { control.status().await });
            let status = status.map_err(|stuck| Error::engine("asking for the status", stuck))?;
            sum.add(&status.map_err(|error| Error::engine("asking for the status", error))?);
        }
        Ok(sum)
    }

    /// Of mapped pools: what they survive, and the data columns of their stripes.
    pub(crate) fn mapped(&self) -> Option<(ProtectionName, usize)> {
        match self.only().control.config().shape {
            Shape::Mapped(geometry) => Some((name_of(geometry.protection), geometry.data_columns)),
            Shape::Array(_) => None,
        }
    }

    /// The volumes, dealt over the parts in turn; on an array they are ranges of its one volume.
    fn target(&self, world: &World, spec: &Spec, composition: &Composition) -> Result<Target> {
        let is_array = matches!(composition.kind, PoolKind::Array(_));
        let whole = |part: &OpenPool| part.volume(NAME).expect("an array has a volume of its name");
        if !is_array {
            let part = |i: usize| &self.parts[i % self.parts.len()];
            let volume = |i| part(i).volume(&volume_name(i)).expect("it was made with the pool");
            return Ok(Target::new((0..spec.volumes.len()).map(|i| Place::Volume(volume(i))).collect()));
        }
        if spec.preset.is_none() {
            return Ok(Target::new(vec![Place::Volume(whole(self.only()))]));
        }
        let stores = self.parts.iter().map(|part| {
            let layered = Layered::new(world, part, whole(part), composition.layer, &spec.layer);
            layered.map(Rc::new)
        });
        let stores = stores.collect::<Result<Vec<_>>>()?;
        let mut used = vec![0; stores.len()];
        let mut places = Vec::new();
        for (i, volume) in spec.volumes.iter().enumerate() {
            let part = i % stores.len();
            let (from, bytes) = (used[part], volume.size.0);
            used[part] += bytes;
            let room = stores[part].bytes();
            if used[part] > room {
                let why =
                    format!("with those before it on its array {} bytes, and that has {room}", used[part]);
                return Err(Error::setting(format!("volumes.{i}.size"), why));
            }
            places.push(Place::Layered { store: Rc::clone(&stores[part]), from, bytes });
        }
        Ok(Target::new(places))
    }
}

fn name_of(protection: Protection) -> ProtectionName {
    match protection {
        Protection::Mirror { copies: 2 } => ProtectionName::Mirror,
        Protection::Mirror { .. } => ProtectionName::Mirror3,
        Protection::Parity1 => ProtectionName::Parity1,
        Protection::Parity2 => ProtectionName::Parity2,
    }
}

fn open_part(
    world: &World,
    spec: &Spec,
    composition: &Composition,
    part: usize,
    candidates: Vec<Candidate>,
) -> Result<OpenPool> {
    let is_array = matches!(composition.kind, PoolKind::Array(_));
    let shards = if spec.target == TargetName::Array { spec.array.shards } else { spec.pool.shards };
    let pool_spec = pool::PoolSpec {
        name: NAME.to_owned(),
        kind: composition.kind,
        shards: shards.unwrap_or(1),
        journal_blocks: None,
        force: false,
    };
    // An array's one volume is made with it.
    let here = |i: &usize| !is_array && i % composition.parts == part;
    let numbers = (0..spec.volumes.len()).filter(here);
    let sizes: Vec<(String, u64)> = numbers.map(|i| (volume_name(i), spec.volumes[i].size.0)).collect();
    let bounds = Bounds {
        bytes_per_second: spec.pool.throttle.map_or(0, |rate| rate.0),
        rest_above: spec.grows.as_ref().map_or(0, |grows| grows.rest_above),
    };
    let Composition { step_around, policy, battery, .. } = *composition;
    let devices: Vec<DeviceId> = candidates.iter().map(|candidate| candidate.device).collect();
    let io = world.io();
    let opened = world.block_on(async move {
        let made = pool::create(&io, &candidates, &pool_spec).await;
        made.map_err(|error| Error::engine("making the pool", error))?;
        let opened = OpenPool::open(io, candidates, || false).await;
        let pool = opened.map_err(|error| Error::engine("opening the pool", error))?;
        for (name, bytes) in sizes {
            let made = pool.control.create_volume(&name, bytes).await;
            made.map_err(|error| Error::engine("making the volumes", error))?;
        }
        pool.control.throttle(bounds).await;
        pool.control.step_around(step_around).await;
        if !is_array {
            let set = pool.control.set_policy(policy).await;
            set.map_err(|error| Error::engine("setting the policy", error))?;
        }
        Ok::<_, Error>(pool)
    });
    let pool = opened.map_err(|stuck| Error::engine("making the pool", stuck))??;
    if battery {
        let config = pool.control.config();
        for (device, member) in devices.into_iter().zip(&config.members) {
            let metadata = member.layout.metadata(config.shape.shards()).collect();
            world.device(device).set_battery_backed(metadata);
        }
    }
    Ok(pool)
}
