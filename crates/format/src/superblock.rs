//! The superblock: every active member holds the whole configuration of its pool, in two slots.
//!
//! A slot is one header block and the encoded [`Config`] behind it. The slot without the newest superblock is written, so a
//! torn write leaves the previous generation readable.

use crate::model::config::{Config, MemberConfig, MemberState, Opening, VolumeConfig, WEIGHT_FULL, WEIGHTS};
use crate::model::damage::{DamagedRange, DamagedRanges, VolumeDamage};
use crate::model::elastic_policy::ElasticPolicy;
use crate::model::host_record::HostRecord;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::checksum::crc32c;
use sinew_core::ids::VolumeId;

use crate::codec::{DecodeError, Reader, Writer};
use crate::pool_geometry_codec::{decode_shape, encode_shape};
use crate::volume_codec::{
    chosen_protections, decode_limits, decode_protections, encode_limits, encode_protections,
};
use crate::{FORMAT_VERSION, PROTECTIONS_VERSION, VERSIONS};

const MAGIC: &[u8; 8] = b"SINEWSB\n";
/// Bytes of one slot.
pub const SLOT_BYTES: usize = 448 << 10;
/// Where the two slots begin. The first 64 KiB of a member stay zero.
pub const SLOT_OFFSETS: [u64; 2] = [64 << 10, 512 << 10];

/// Limit of the generation and the epoch: both count up by one and never come near it.
const COUNT_LIMIT: u64 = 1 << 62;

/// A configuration as one member holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The number of this member in the configuration.
    pub member: u8,
    /// The configuration.
    pub config: Config,
}

impl Superblock {
    /// Encodes a slot.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when the configuration is larger than a slot.
    pub fn encode(&self) -> Result<Buf, DecodeError> {
        let body = encode_config(&self.config);
        if BLOCK_BYTES + body.len() > SLOT_BYTES {
            return Err(DecodeError::Invalid("configuration: too many volumes or too long names"));
        }
        let mut w = Writer::default();
        w.bytes(MAGIC);
        let chooses = chosen_protections(&self.config).next().is_some();
        w.u16(if chooses { PROTECTIONS_VERSION } else { FORMAT_VERSION });
        w.u16(u16::from(self.member));
        w.u32(body.len() as u32);
        w.u64(self.config.generation);
        w.u32(crc32c(&body));
        let crc = crc32c(&w.0);
        w.u32(crc);
        let mut buf = Buf::zeroed((BLOCK_BYTES + body.len()).next_multiple_of(BLOCK_BYTES));
        buf.bytes_mut()[..w.0.len()].copy_from_slice(&w.0);
        buf.bytes_mut()[BLOCK_BYTES..BLOCK_BYTES + body.len()].copy_from_slice(&body);
        Ok(buf)
    }

    /// Decodes a slot.
    ///
    /// # Errors
    /// [`DecodeError`] when it holds no superblock, a damaged one, or an intact one of another version.
    pub fn decode(slot: &[u8]) -> Result<Superblock, DecodeError> {
        let mut r = Reader(slot);
        if r.take(8).map_err(|_| DecodeError::Foreign)? != MAGIC {
            return Err(DecodeError::Foreign);
        }
        let version = r.u16()?;
        let member = r.u16()?;
        let body_len = r.u32()? as usize;
        let generation = r.u64()?;
        let body_crc = r.u32()?;
        let header_crc = crc32c(&slot[..28]);
        if r.u32()? != header_crc {
            return Err(DecodeError::Checksum);
        }
        let body = slot
            .get(BLOCK_BYTES..BLOCK_BYTES.saturating_add(body_len))
            .ok_or(DecodeError::Invalid("superblock length"))?;
        if crc32c(body) != body_crc {
            return Err(DecodeError::Checksum);
        }
        // The layout of the header is the same in all versions, so both checksums are valid in a superblock of an unknown version.
        if !VERSIONS.contains(&version) {
            return Err(DecodeError::Version(version));
        }
        let config = decode_config(body)?;
        if config.generation != generation || usize::from(member) >= config.members.len() {
            return Err(DecodeError::Invalid("superblock header"));
        }
        Ok(Superblock { member: member as u8, config })
    }
}

fn encode_config(config: &Config) -> Vec<u8> {
    let mut w = Writer::default();
    w.bytes(&config.pool);
    w.text(&config.name);
    w.u64(config.generation);
    w.u64(config.epoch);
    w.u8(config.members.len() as u8);
    encode_shape(&config.geometry, &mut w);
    for m in &config.members {
        w.bytes(&m.uuid);
        w.u64(m.bytes);
        w.u32(m.layout.page_slots);
        w.u32(m.layout.chunks);
        w.u8(MemberState::ALL.iter().position(|&s| s == m.state).expect("every state is listed") as u8);
        w.u64(m.out_epoch);
        w.text(&m.path);
    }
    w.u32(config.volume_next);
    w.u32(config.volumes.len() as u32);
    for v in &config.volumes {
        w.u32(v.id.0);
        w.text(&v.name);
        w.u64(v.bytes);
        w.u8(u8::from(v.deleting));
    }
    w.u8(config.openings.len() as u8);
    for opening in &config.openings {
        w.u64(opening.epoch);
        w.u64(opening.nonce);
    }
    config.members.iter().for_each(|m| w.u64(m.physical));
    w.u32(config.damage.len() as u32);
    for VolumeDamage { volume, ranges } in &config.damage {
        w.u32(volume.0);
        w.u32(ranges.ranges().len() as u32);
        for range in ranges.ranges() {
            w.u64(range.first);
            w.u64(range.blocks);
            w.u64(range.since_s);
        }
    }
    w.u8(u8::from(config.geometry.is_elastic()));
    if config.geometry.is_elastic() {
        encode_elastic_policy(&config.elastic_policy, &mut w);
    }
    encode_limits(&config.volumes, &mut w);
    w.u8(u8::from(config.open_on.is_some()));
    if let Some(HostRecord { id, name, since_s }) = &config.open_on {
        w.bytes(id);
        w.text(name);
        w.u64(*since_s);
    }
    config.members.iter().for_each(|m| w.u8(m.weight));
    encode_protections(config, &mut w);
    w.u8(u8::from(config.states_reach));
    w.0
}

fn decode_config(body: &[u8]) -> Result<Config, DecodeError> {
    let mut r = Reader(body);
    let pool = r.uuid()?;
    let name = r.text()?;
    let generation = r.u64()?;
    let epoch = r.u64()?;
    if generation >= COUNT_LIMIT || epoch >= COUNT_LIMIT {
        return Err(DecodeError::Invalid("generation or epoch"));
    }
    let count = usize::from(r.u8()?);
    let shape = decode_shape(&mut r, count)?;
    let mut members = Vec::with_capacity(count);
    for _ in 0..count {
        let uuid = r.uuid()?;
        let bytes = r.u64()?;
        let (page_slots, chunks) = (r.u32()?, r.u32()?);
        let state =
            *MemberState::ALL.get(usize::from(r.u8()?)).ok_or(DecodeError::Invalid("member state"))?;
        let out_epoch = r.u64()?;
        let path = r.text()?;
        let layout = shape.member_layout(bytes, page_slots, chunks, state);
        let layout = layout.ok_or(DecodeError::Invalid("member layout"))?;
        members.push(MemberConfig {
            uuid,
            bytes,
            layout,
            state,
            out_epoch,
            path,
            physical: 0,
            weight: WEIGHT_FULL,
        });
    }
    let volume_next = r.u32()?;
    let mut volumes: Vec<VolumeConfig> = Vec::new();
    for _ in 0..r.u32()? {
        let (id, name, bytes, deleting) = (VolumeId(r.u32()?), r.text()?, r.u64()?, r.u8()? != 0);
        // Ids are assigned in rising order and never reused.
        let in_order = id.0 < volume_next && volumes.last().is_none_or(|v| v.id < id);
        if bytes % BLOCK_BYTES as u64 != 0 || !in_order {
            return Err(DecodeError::Invalid("volume"));
        }
        volumes.push(VolumeConfig { deleting, ..VolumeConfig::new(id, name, bytes) });
    }
    let mut openings = Vec::new();
    for _ in 0..r.u8()? {
        openings.push(Opening { epoch: r.u64()?, nonce: r.u64()? });
    }
    // Pools of earlier versions end here.
    if !r.0.is_empty() {
        for member in &mut members {
            member.physical = r.u64()?;
        }
    }
    // So do those of versions that forgot damage.
    let damage = if r.0.is_empty() { Vec::new() } else { decode_damage(&mut r, &volumes)? };
    // And those of versions without a governor of elastic arrays.
    let elastic_policy = match !r.0.is_empty() && r.u8()? != 0 {
        true if shape.is_elastic() => decode_elastic_policy(&mut r)?,
        true => return Err(DecodeError::Invalid("policy of an elastic array")),
        false => ElasticPolicy::DEFAULT,
    };
    // And those of versions without limits of volumes.
    if !r.0.is_empty() {
        decode_limits(&mut r, &mut volumes)?;
    }
    // And those of versions that do not tell hosts apart.
    let open_on = if r.0.is_empty() { None } else { decode_host(&mut r)? };
    // And those of versions without weights of members.
    if !r.0.is_empty() {
        for member in &mut members {
            member.weight = r.u8()?;
            if !WEIGHTS.contains(&member.weight) {
                return Err(DecodeError::Invalid("weight"));
            }
        }
    }
    // And those of versions whose volumes all have the protection of the pool.
    if !r.0.is_empty() {
        decode_protections(&mut r, &shape, &mut volumes)?;
    }
    // And those of versions whose members do not state how far pages reach.
    let states_reach = !r.0.is_empty() && r.u8()? != 0;
    let config = Config {
        pool,
        name,
        generation,
        epoch,
        geometry: shape,
        members,
        volumes,
        volume_next,
        openings,
        damage,
        elastic_policy,
        open_on,
        states_reach,
    };
    let all = config.volumes.iter().fold(0u64, |all, v| all.saturating_add(v.bytes));
    // All members count: the volumes may be larger than the limit now if members were lost for good since.
    if all > config.volume_bytes_on(|_| true) {
        return Err(DecodeError::Invalid("size of volumes"));
    }
    Ok(config)
}

/// A share that is not set.
const NO_SHARE: u8 = u8::MAX;

fn encode_elastic_policy(policy: &ElasticPolicy, w: &mut Writer) {
    w.u8(policy.mirrored_share.unwrap_or(NO_SHARE));
    w.u8(u8::from(policy.governed) | u8::from(policy.weighed) << 1 | u8::from(policy.autonomous) << 2);
    w.u8(policy.low);
    w.u8(policy.high);
    w.u16(policy.hit_factor);
    w.u16(policy.steady_permille);
    w.u32(policy.interval_ms);
    w.u64(policy.convert_rate);
    w.u32(policy.autonomous_period_s);
}

fn decode_elastic_policy(r: &mut Reader<'_>) -> Result<ElasticPolicy, DecodeError> {
    let (share, flags) = (r.u8()?, r.u8()?);
    let policy = ElasticPolicy {
        mirrored_share: Some(share).filter(|&share| share != NO_SHARE),
        governed: flags & 1 != 0,
        weighed: flags & 2 != 0,
        autonomous: flags & 4 != 0,
        low: r.u8()?,
        high: r.u8()?,
        hit_factor: r.u16()?,
        steady_permille: r.u16()?,
        interval_ms: r.u32()?,
        convert_rate: r.u64()?,
        autonomous_period_s: r.u32()?,
    };
    match policy.fault() {
        None => Ok(policy),
        Some(_) => Err(DecodeError::Invalid("policy of an elastic array")),
    }
}

fn decode_host(r: &mut Reader<'_>) -> Result<Option<HostRecord>, DecodeError> {
    match r.u8()? {
        0 => Ok(None),
        1 => Ok(Some(HostRecord { id: r.uuid()?, name: r.text()?, since_s: r.u64()? })),
        _ => Err(DecodeError::Invalid("host")),
    }
}

fn decode_damage(r: &mut Reader<'_>, volumes: &[VolumeConfig]) -> Result<Vec<VolumeDamage>, DecodeError> {
    let wrong = DecodeError::Invalid("damage");
    let mut damage: Vec<VolumeDamage> = Vec::new();
    for _ in 0..r.u32()? {
        let volume = VolumeId(r.u32()?);
        let is_volume = volumes.iter().any(|v| v.id == volume);
        if !is_volume || damage.last().is_some_and(|last| last.volume >= volume) {
            return Err(wrong);
        }
        let mut ranges = Vec::new();
        for _ in 0..r.u32()? {
            ranges.push(DamagedRange { first: r.u64()?, blocks: r.u64()?, since_s: r.u64()? });
        }
        let ranges = DamagedRanges::from_stored(ranges).filter(|ranges| !ranges.is_empty());
        damage.push(VolumeDamage { volume, ranges: ranges.ok_or_else(|| wrong.clone())? });
    }
    Ok(damage)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::array_geometry::{ArrayGeometry, ArraySpec};
    use crate::model::form::Elastic;
    use crate::model::mapped_geometry::{MappedGeometry, MemberLayout, Protection};
    use crate::model::pool_geometry::PoolGeometry;
    use crate::model::volume_limits::VolumeLimits;
    use proptest::prelude::*;
    use sinew_layout::{Level, ParityWeights, Rotation};

    pub(crate) fn sample() -> Config {
        let protection = Protection::Parity1;
        let geometry =
            MappedGeometry { protection, data_columns: 2, shards: 2, checksums: true, journal_blocks: 64 };
        let geometry = geometry.checked_for(4).unwrap();
        let layout = geometry.member_layout(64 << 20, 4).unwrap();
        let states = [MemberState::Active, MemberState::Failed, MemberState::Offline, MemberState::Missing];
        let member = |i: u8| MemberConfig {
            uuid: [i; 16],
            bytes: 64 << 20,
            layout,
            state: states[usize::from(i)],
            out_epoch: 3,
            path: format!("/dev/m{i}"),
            physical: u64::from(i) << 20,
            weight: WEIGHT_FULL - i,
        };
        Config {
            pool: [9; 16],
            name: "tank".into(),
            generation: 7,
            epoch: 5,
            geometry: PoolGeometry::Mapped(geometry),
            members: (0..4).map(member).collect(),
            volumes: vec![VolumeConfig {
                deleting: true,
                limits: VolumeLimits { iops: 100, bytes_per_second: 1 << 20, burst_ms: 7 },
                ..VolumeConfig::new(VolumeId(1), "v", 1 << 20)
            }],
            volume_next: 2,
            openings: vec![Opening { epoch: 5, nonce: 17 }],
            damage: vec![VolumeDamage {
                volume: VolumeId(1),
                ranges: DamagedRanges::from_stored(vec![DamagedRange { first: 3, blocks: 2, since_s: 9 }])
                    .unwrap(),
            }],
            elastic_policy: ElasticPolicy::DEFAULT,
            open_on: Some(HostRecord { id: [3; 16], name: "alpha".into(), since_s: 11 }),
            states_reach: true,
        }
    }

    /// Bytes of the host of the sample, at its end, and of the limits before it.
    const HOST: usize = 1 + 16 + 2 + 5 + 8;
    const LIMITS: usize = 4 + 4 + 8 + 8 + 4;
    /// Bytes of the protections of volumes where all have that of the pool.
    const PROTECTIONS: usize = 4;
    /// Bytes that tell whether members state how far pages reach.
    const REACH: usize = 1;

    /// An elastic array on four members.
    fn elastic_sample() -> Config {
        let elastic = Elastic { expect_milli: 1800, physical: 0, form_pages: 0 };
        let level = Level::Raid5(Rotation::LeftSymmetric);
        let spec = ArraySpec {
            level,
            chunk_bytes: 65536,
            journal: true,
            spares: 0,
            zeroed: true,
            elastic: Some(elastic),
        };
        let geometry = ArrayGeometry::new(&spec, 4, 64 << 20, 1, Some(64)).unwrap();
        let mut config = Config { geometry: PoolGeometry::Array(geometry), damage: Vec::new(), ..sample() };
        config.members.iter_mut().for_each(|member| member.layout = MemberLayout::default());
        config
    }

    #[test]
    fn parity_weights_are_kept() {
        let mut config = elastic_sample();
        let weights = ParityWeights::new(&[4, 2, 1, 1]).unwrap();
        let PoolGeometry::Array(array) = config.geometry else { unreachable!("a sample of an array") };
        let level = Level::Raid5(Rotation::Weighted(weights));
        let spec = ArraySpec { level, elastic: None, ..array.spec() };
        config.geometry = PoolGeometry::Array(ArrayGeometry::new(&spec, 4, 64 << 20, 1, Some(64)).unwrap());
        let bytes = encode_config(&config);
        assert_eq!(decode_config(&bytes).as_ref(), Ok(&config));
        // Weights of no member, in place of those.
        let at = bytes.windows(4).position(|at| at == [4, 2, 1, 1]).unwrap();
        let mut none = bytes.clone();
        none[at..at + 4].fill(0);
        assert_eq!(decode_config(&none), Err(DecodeError::Invalid("parity weights")));
    }

    #[test]
    fn the_policy_of_an_elastic_array_is_kept() {
        let mut config = elastic_sample();
        let earlier = {
            let bytes = encode_config(&config);
            config.volumes[0].limits = VolumeLimits::NONE;
            decode_config(
                &bytes[..bytes.len() - REACH - PROTECTIONS - config.members.len() - HOST - LIMITS - 28 - 1],
            )
            .unwrap()
        };
        assert_eq!(earlier.elastic_policy, ElasticPolicy::DEFAULT, "a version without a governor");
        config.elastic_policy = ElasticPolicy {
            low: 50,
            high: 60,
            convert_rate: 7,
            autonomous: false,
            ..ElasticPolicy::pinned(20)
        };
        assert_eq!(decode_config(&encode_config(&config)).as_ref(), Ok(&config));
        config.elastic_policy.hit_factor = 0;
        assert!(decode_config(&encode_config(&config)).is_err());
        // A pool that is no elastic array has none.
        let mut other = encode_config(&sample());
        let at = other.len() - REACH - PROTECTIONS - sample().members.len() - HOST - LIMITS - 1;
        other[at] = 1;
        assert_eq!(decode_config(&other), Err(DecodeError::Invalid("policy of an elastic array")));
    }

    #[test]
    fn survives_a_round_trip() {
        let mut sb = Superblock { member: 2, config: sample() };
        assert_eq!(Superblock::decode(sb.encode().unwrap().bytes()).as_ref(), Ok(&sb));
        sb.config.members[0].state = MemberState::Leaving;
        assert_eq!(Superblock::decode(sb.encode().unwrap().bytes()), Ok(sb));
    }

    #[test]
    fn configurations_of_earlier_versions_are_read() {
        let mut config = sample();
        let bytes = encode_config(&config);
        let (damage, no_policy) = (4 + 4 + 4 + 24, 1);
        let before_reach = &bytes[..bytes.len() - REACH];
        config.states_reach = false;
        assert_eq!(decode_config(before_reach).unwrap(), config);
        let before_protections = &before_reach[..before_reach.len() - PROTECTIONS];
        assert_eq!(decode_config(before_protections).unwrap(), config);
        let before_weights = &before_protections[..before_protections.len() - config.members.len()];
        config.members.iter_mut().for_each(|member| member.weight = WEIGHT_FULL);
        assert_eq!(decode_config(before_weights).unwrap(), config);
        let before_host = &before_weights[..before_weights.len() - HOST];
        config.open_on = None;
        assert_eq!(decode_config(before_host).unwrap(), config);
        let before_limits = &before_host[..before_host.len() - LIMITS];
        config.volumes[0].limits = VolumeLimits::NONE;
        assert_eq!(decode_config(before_limits).unwrap(), config);
        let before_damage = &before_limits[..before_limits.len() - damage - no_policy];
        config.damage.clear();
        assert_eq!(decode_config(before_damage).unwrap(), config);
        let earlier = &before_damage[..before_damage.len() - 8 * config.members.len()];
        config.members.iter_mut().for_each(|member| member.physical = 0);
        assert_eq!(decode_config(earlier).unwrap(), config);
    }

    #[test]
    fn a_superblock_of_another_version_is_told_from_a_damaged_one() {
        let mut slot = Superblock { member: 2, config: sample() }.encode().unwrap();
        let bytes = slot.bytes_mut();
        bytes[8] = 9;
        assert_eq!(Superblock::decode(bytes), Err(DecodeError::Checksum), "the version alone rotted");
        let crc = crc32c(&bytes[..28]);
        bytes[28..32].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Superblock::decode(bytes), Err(DecodeError::Version(9)));
        bytes[BLOCK_BYTES] ^= 1;
        assert_eq!(Superblock::decode(bytes), Err(DecodeError::Checksum), "torn");
    }

    #[test]
    fn protections_of_volumes_are_kept_and_known_to_earlier_versions_by_the_version() {
        let version =
            |sb: &Superblock| u16::from_le_bytes(sb.encode().unwrap().bytes()[8..10].try_into().unwrap());
        let mut sb = Superblock { member: 2, config: sample() };
        assert_eq!(version(&sb), FORMAT_VERSION);
        sb.config.volumes[0].protection = Some(Protection::Mirror { copies: 2 });
        assert_eq!(version(&sb), PROTECTIONS_VERSION);
        assert_eq!(Superblock::decode(sb.encode().unwrap().bytes()).as_ref(), Ok(&sb));
        assert_eq!(sb.config.pinned_volumes(), [VolumeId(1)]);
        sb.config.volumes[0] =
            VolumeConfig { protection: None, moving: true, ..sb.config.volumes[0].clone() };
        assert_eq!((version(&sb), sb.config.pinned_volumes()), (PROTECTIONS_VERSION, vec![]));
        assert_eq!(Superblock::decode(sb.encode().unwrap().bytes()).as_ref(), Ok(&sb));
        sb.config.volumes[0].moving = false;
        // Fewer members could be lost, or the pool offers it to all volumes.
        for wrong in [Protection::Mirror { copies: 3 }, Protection::Parity2, Protection::Parity1] {
            sb.config.volumes[0].protection = Some(wrong);
            assert!(Superblock::decode(sb.encode().unwrap().bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn volumes_are_bounded_by_the_members_that_stay() {
        let mut config = sample();
        let (all, without) = (config.volume_bytes_max(), config.volume_bytes_max_without(0));
        assert_eq!(without, all / 4 * 3);
        config.members[0].state = MemberState::Removed;
        assert_eq!(config.volume_bytes_max(), without);
        // What was made before is still known.
        config.volumes[0].bytes = all;
        assert!(decode_config(&encode_config(&config)).is_ok());
    }

    #[test]
    fn says_what_is_wrong() {
        let good = Superblock { member: 2, config: sample() }.encode().unwrap().bytes().to_vec();
        assert_eq!(Superblock::decode(&[0; 8192]), Err(DecodeError::Foreign));
        let mut torn = good;
        torn[BLOCK_BYTES + 20] ^= 1;
        assert_eq!(Superblock::decode(&torn), Err(DecodeError::Checksum));
    }

    #[test]
    fn impossible_numbers_are_refused() {
        let wrong: [fn(&mut Config); 12] = [
            |c| c.epoch = COUNT_LIMIT,
            |c| c.generation = u64::MAX,
            |c| c.members[1].bytes = 1 << 20,
            |c| c.members[1].bytes = u64::MAX - 1,
            |c| c.members[1].layout.page_slots = 0,
            |c| c.members[1].layout.chunks = 0,
            |c| c.volumes[0].bytes = 1 << 40,
            |c| c.volumes[0].id = VolumeId(2),
            |c| c.volumes.push(c.volumes[0].clone()),
            |c| c.members[0].state = MemberState::Spare,
            |c| c.volumes[0].limits.iops = u64::MAX,
            |c| c.volumes[0].limits.bytes_per_second = 1,
        ];
        for (i, wrong) in wrong.into_iter().enumerate() {
            let mut config = sample();
            wrong(&mut config);
            let decoded = decode_config(&encode_config(&config));
            // A member may be larger than what is used of it.
            assert_eq!(decoded.is_ok(), i == 3, "{decoded:?}");
        }
    }

    proptest! {
        #[test]
        fn damage_is_an_error_not_a_panic(at in 0usize..4600, bit in 0u8..8) {
            let sb = Superblock { member: 2, config: sample() };
            let mut bytes = sb.encode().unwrap().bytes().to_vec();
            if at < bytes.len() { bytes[at] ^= 1 << bit; }
            if let Ok(decoded) = Superblock::decode(&bytes) { prop_assert_eq!(decoded, sb); }
        }

        #[test]
        fn any_config_bytes_decode_or_fail(body in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = decode_config(&body);
        }
    }
}
