//! The pools under test: one pool or array of all members, or the several of them that a preset is composed of.

use std::rc::Rc;

use sinew_core::io::DeviceId;
use sinew_engine::pool::preset::Layer;
use sinew_engine::pool::{self, Candidate, PoolKind};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::form::Elastic;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::policy::Policy;
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_members::latency::SpikeAvoidance;
use sinew_members::status::ShardStatus;
use sinew_members::throttle::Limits;
use sinew_sim::{OpenPool, World};

use crate::file::names::{PresetName, TargetName};
use crate::file::spec::Spec;
use crate::system::layer::{Layered, Store};
use crate::system::members::Member;
use crate::system::target::{Target, TargetVolume};
use crate::{Error, Result};

/// The name of every pool and array.
const NAME: &str = "experiment";

/// The pools or arrays of a run, all in one world. Each is a part of the system under test.
pub(crate) struct Pools {
    parts: Vec<OpenPool>,
    spike_avoidance: SpikeAvoidance,
}

/// What the system is composed of.
struct Composition {
    parts: usize,
    /// The members of each part; the first part has the first members, and so on.
    part_members: usize,
    kind: PoolKind,
    spike_avoidance: SpikeAvoidance,
    policy: Policy,
    /// Whether the metadata of members is in battery-backed memory.
    battery: bool,
    layer: Option<Layer>,
}

impl Composition {
    fn of(spec: &Spec, members: usize) -> Result<Composition> {
        if let Some(PresetName(preset)) = spec.preset {
            let composed = preset.compose(members, true);
            let composed = composed.map_err(|why| Error::setting("preset", why.to_string()))?;
            let kind = match composed.kind {
                PoolKind::Array(array) => PoolKind::Array(ArraySpec { elastic: elastic_of(spec), ..array }),
                mapped @ PoolKind::Mapped { .. } => mapped,
            };
            return Ok(Composition {
                parts: composed.parts,
                part_members: composed.part_members,
                kind,
                spike_avoidance: spec
                    .pool
                    .spike_avoidance
                    .map_or(preset.spike_avoidance, SpikeAvoidance::from),
                policy: spec.pool.policy.applied_to(preset.policy),
                battery: spec.pool.battery.unwrap_or(preset.battery),
                layer: preset.layer,
            });
        }
        let kind = match spec.target {
            TargetName::Array => PoolKind::Array(ArraySpec {
                level: spec.array.full_level()?,
                chunk_bytes: spec.array.chunk.0 as u32,
                journal: spec.array.journal,
                spares: spec.spares(),
                zeroed: true,
                elastic: elastic_of(spec),
            }),
            _ => PoolKind::Mapped {
                protection: spec.pool.protection,
                data_columns: spec.pool.width,
                checksums: spec.pool.checksums,
            },
        };
        Ok(Composition {
            parts: 1,
            part_members: spec.members_at_creation(members),
            kind,
            spike_avoidance: spec.pool.spike_avoidance.map_or_else(SpikeAvoidance::default, Into::into),
            policy: spec.pool.policy.applied_to(Policy::DEFAULT),
            battery: spec.pool.battery.unwrap_or(false),
            layer: None,
        })
    }
}

/// What makes an array of the file elastic, if it is.
fn elastic_of(spec: &Spec) -> Option<Elastic> {
    spec.elastic().map(|elastic| Elastic {
        expect_milli: (elastic.expect * 1000.0).round() as u32,
        physical: spec.physical(),
        form_pages: 0,
    })
}

fn volume_name(number: usize) -> String {
    format!("volume{number}")
}

/// The bytes of all members that are in use.
pub(crate) struct MemberBytes {
    /// All of them.
    pub(crate) all: u64,
    /// Of these, the bytes of superblocks, journals and tables.
    pub(crate) metadata: u64,
}

/// The stripes of a mapped pool.
pub(crate) struct Stripes {
    pub(crate) protection: Protection,
    /// Data columns of a full stripe.
    pub(crate) data_columns: usize,
}

impl Pools {
    /// Creates and opens all parts, and returns them with the target of the volumes on them.
    ///
    /// # Errors
    /// [`Error::Setting`] if the members or volumes do not fit, [`Error::Engine`] if the engine refuses an operation.
    pub(crate) fn open(world: &World, spec: &Spec, members: &[Member]) -> Result<(Pools, Target)> {
        let composition = Composition::of(spec, members.len())?;
        let part = |part| {
            let range = part * composition.part_members..(part + 1) * composition.part_members;
            open_part(world, spec, &composition, part, range.map(|i| members[i].candidate(i)).collect())
        };
        let parts: Result<Vec<OpenPool>> = (0..composition.parts).map(part).collect();
        let pools = Pools { parts: parts?, spike_avoidance: composition.spike_avoidance };
        let target = pools.target(world, spec, &composition)?;
        Ok((pools, target))
    }

    /// The only part of a system without a preset.
    pub(crate) fn only(&self) -> &OpenPool {
        &self.parts[0]
    }

    /// How latency spikes are detected.
    pub(crate) fn spike_avoidance(&self) -> SpikeAvoidance {
        self.spike_avoidance
    }

    /// The number of members of all parts.
    pub(crate) fn members(&self) -> usize {
        self.parts.iter().map(|part| part.control.config().members.len()).sum()
    }

    /// The bytes of all members that are in use.
    pub(crate) fn member_bytes(&self) -> MemberBytes {
        let (mut all, mut metadata) = (0, 0);
        for part in &self.parts {
            let config = part.control.config();
            let shards = config.geometry.shards();
            for member in &config.members {
                all += member.layout.end_bytes(shards);
                metadata += member.layout.metadata(shards).map(|range| range.end - range.start).sum::<u64>();
            }
        }
        MemberBytes { all, metadata }
    }

    /// The sum of the status of all parts.
    ///
    /// # Errors
    /// [`Error::Engine`] if a part does not report its status.
    pub(crate) fn status(&self, world: &World) -> Result<ShardStatus> {
        let mut sum = ShardStatus::default();
        for part in &self.parts {
            let control = Rc::clone(&part.control);
            let status = world.block_on(async move { control.status().await });
            let status = status.map_err(|stuck| Error::engine("reading the status", stuck))?;
            sum.add(&status.map_err(|error| Error::engine("reading the status", error))?);
        }
        Ok(sum)
    }

    /// The stripes of mapped pools; `None` for arrays.
    pub(crate) fn stripes(&self) -> Option<Stripes> {
        match self.only().control.config().geometry {
            PoolGeometry::Mapped(geometry) => {
                Some(Stripes { protection: geometry.protection, data_columns: geometry.data_columns })
            }
            PoolGeometry::Array(_) => None,
        }
    }

    /// The target of all volumes. Volumes are dealt to the parts in turn; on arrays they are ranges of the one volume.
    fn target(&self, world: &World, spec: &Spec, composition: &Composition) -> Result<Target> {
        let is_array = matches!(composition.kind, PoolKind::Array(_));
        let whole = |part: &OpenPool| part.volume(NAME).expect("the volume of an array has its name");
        if !is_array {
            let part = |i: usize| &self.parts[i % self.parts.len()];
            let volume = |i| part(i).volume(&volume_name(i)).expect("the volume was created with the pool");
            return Ok(Target::new(
                (0..spec.volumes.len()).map(|i| TargetVolume::Volume(volume(i))).collect(),
            ));
        }
        if spec.preset.is_none() {
            return Ok(Target::new(vec![TargetVolume::Volume(whole(self.only()))]));
        }
        let stores = self.parts.iter().map(|part| {
            let layered = Layered::new(world, part, whole(part), composition.layer, &spec.layer);
            layered.map(Rc::new)
        });
        let stores = stores.collect::<Result<Vec<_>>>()?;
        let mut used = vec![0; stores.len()];
        let mut volumes = Vec::new();
        for (i, volume) in spec.volumes.iter().enumerate() {
            let part = i % stores.len();
            let (from, bytes) = (used[part], volume.size.0);
            used[part] += bytes;
            let size = stores[part].bytes();
            if used[part] > size {
                let why =
                    format!("the volumes up to this one on its array need {} bytes of {size}", used[part]);
                return Err(Error::setting(format!("volumes.{i}.size"), why));
            }
            volumes.push(TargetVolume::Layered { store: Rc::clone(&stores[part]), from, bytes });
        }
        Ok(Target::new(volumes))
    }
}

/// Creates and opens one part with its volumes.
fn open_part(
    world: &World,
    spec: &Spec,
    composition: &Composition,
    part: usize,
    candidates: Vec<Candidate>,
) -> Result<OpenPool> {
    let is_array = matches!(composition.kind, PoolKind::Array(_));
    let is_elastic = matches!(composition.kind, PoolKind::Array(array) if array.elastic.is_some());
    let shards = if spec.target == TargetName::Array { spec.array.shards } else { spec.pool.shards };
    let pool_spec = pool::PoolSpec {
        name: NAME.to_owned(),
        kind: composition.kind,
        shards: shards.unwrap_or(1),
        journal_blocks: None,
        force: false,
        physical: None,
    };
    // An array is created with its one volume.
    let here = |i: &usize| !is_array && i % composition.parts == part;
    let numbers = (0..spec.volumes.len()).filter(here);
    let sizes: Vec<(String, u64)> = numbers.map(|i| (volume_name(i), spec.volumes[i].size.0)).collect();
    let bounds = Limits {
        bytes_per_second: spec.pool.throttle.map_or(0, |rate| rate.0),
        pause_above_iops: spec.grows.as_ref().map_or(0, |grows| grows.pause_above_iops),
    };
    let group_form = spec.array.group_form;
    let Composition { spike_avoidance, policy, battery, .. } = *composition;
    let weights = spec.pool.member_weights.clone().unwrap_or_default();
    let devices: Vec<DeviceId> = candidates.iter().map(|candidate| candidate.device).collect();
    let io = world.io();
    let opened = world.block_on(async move {
        let made = pool::create(&io, &candidates, &pool_spec).await;
        made.map_err(|error| Error::engine("creating the pool", error))?;
        let opened = OpenPool::open(io, candidates, || false).await;
        let pool = opened.map_err(|error| Error::engine("opening the pool", error))?;
        for (name, bytes) in sizes {
            let made = pool.control.create_volume(&name, bytes).await;
            made.map_err(|error| Error::engine("creating the volumes", error))?;
        }
        for (member, weight) in weights.into_iter().enumerate() {
            let set = pool.control.set_weight(member, weight).await;
            set.map_err(|error| Error::engine("setting the weights of members", error))?;
        }
        pool.control.throttle(bounds).await;
        pool.control.set_spike_avoidance(spike_avoidance).await;
        if is_array {
            pool.control.set_group_form(group_form).await;
        } else {
            let set = pool.control.set_policy(policy).await;
            set.map_err(|error| Error::engine("setting the policy", error))?;
        }
        if is_elastic {
            // Until the volume is filled, no stripe changes its form.
            let set = pool.control.set_elastic_policy(ElasticPolicy::FIXED).await;
            set.map_err(|error| Error::engine("setting the policy", error))?;
        }
        Ok::<_, Error>(pool)
    });
    let pool = opened.map_err(|stuck| Error::engine("creating the pool", stuck))??;
    if battery {
        let config = pool.control.config();
        for (device, member) in devices.into_iter().zip(&config.members) {
            let metadata = member.layout.metadata(config.geometry.shards()).collect();
            world.device(device).set_battery_backed(metadata);
        }
    }
    Ok(pool)
}
