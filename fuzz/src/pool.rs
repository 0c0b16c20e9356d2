//! A small pool in the simulated world, its members as bytes, and its opening.

use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_core::volume::Volume;
use sinew_engine::client::{PoolClient, ShardLink, VolumeHandle};
use sinew_engine::control::Control;
use sinew_engine::pool::{self, Candidate, Opener, PoolKind, PoolSpec};
use sinew_engine::shard::Shard;
use sinew_format::model::config::{Config, MemberConfig, MemberState, VolumeConfig, WEIGHT_FULL};
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::mapped_geometry::{MappedGeometry, Protection};
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_members::open_mode::OpenMode;
use sinew_members::pool_shard::OpenShard;
use sinew_sim::{DeviceConfig, SimIo, World};

use crate::seal::BLOCK;

/// Members of the pool.
pub const MEMBERS: usize = 4;
/// Bytes of each.
pub const MEMBER_BYTES: u64 = 6 << 20;
/// Blocks of the journal ring.
pub const JOURNAL_BLOCKS: u32 = 32;
/// The volume in it, and its size.
pub const VOLUME: &str = "v";
/// Bytes of the volume.
pub const VOLUME_BYTES: u64 = 4 << 20;
/// A pool that says it has more chunks than this is not opened: its tables may rightly take more memory than a fuzzer
/// is given.
const CHUNKS_MAX: u64 = 1 << 16;
/// Orders waiting at most.
const MAILBOX: usize = 64;

/// The configuration of a pool of one shard, in one of the shapes there are.
pub fn shape(choice: u8) -> Config {
    let protection = match choice & 3 {
        0 => Protection::Parity1,
        1 => Protection::Parity2,
        2 => Protection::Mirror { copies: 2 },
        _ => Protection::Mirror { copies: 3 },
    };
    let checksums = choice & 4 == 0;
    let geometry =
        MappedGeometry { protection, data_columns: 2, shards: 1, checksums, journal_blocks: JOURNAL_BLOCKS };
    let geometry = geometry.checked_for(MEMBERS).expect("a possible geometry");
    let layout = geometry.member_layout(MEMBER_BYTES, MEMBERS).expect("large enough");
    let member = |i| MemberConfig {
        uuid: [i as u8; 16],
        bytes: MEMBER_BYTES,
        layout,
        state: MemberState::Active,
        out_epoch: 0,
        path: format!("m{i}"),
        physical: 0,
        weight: WEIGHT_FULL,
    };
    let volume = VolumeConfig::new(VolumeId(0), VOLUME, VOLUME_BYTES);
    Config {
        pool: [7; 16],
        name: "fuzz".to_owned(),
        generation: 1,
        epoch: 1,
        geometry: PoolGeometry::Mapped(geometry),
        members: (0..MEMBERS).map(member).collect(),
        volumes: vec![volume],
        volume_next: 1,
        openings: Vec::new(),
        damage: Vec::new(),
        elastic_policy: ElasticPolicy::DEFAULT,
        open_on: None,
        states_reach: choice & 8 != 0,
    }
}

/// A world with empty members.
pub fn world() -> (World, Vec<Candidate>) {
    let world = World::new(1);
    world.set_step_limit(2_000_000);
    let candidate = |i| Candidate {
        device: world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES)),
        path: format!("m{i}"),
    };
    let candidates = (0..MEMBERS).map(candidate).collect();
    (world, candidates)
}

/// An open pool.
pub struct OpenPool {
    /// Its control.
    pub control: Rc<Control<SimIo>>,
    client: PoolClient<SimIo>,
}

impl OpenPool {
    /// Opens the pool on these devices, as a server does.
    ///
    /// # Errors
    /// With the engine's reason, when it cannot be opened, or when it says that it is too large for a fuzzer.
    pub async fn open(io: SimIo, candidates: Vec<Candidate>) -> Result<OpenPool, String> {
        let found =
            pool::discover(&io, &candidates, &Opener::default()).await.map_err(|error| error.to_string())?;
        if found.config.members.iter().map(|m| u64::from(m.layout.chunks)).sum::<u64>() > CHUNKS_MAX {
            return Err("too large for a fuzzer".to_owned());
        }
        let (events, inbox) = async_channel::bounded(MAILBOX);
        let shards = found.config.geometry.shards();
        let (senders, mailboxes): (Vec<_>, Vec<_>) =
            (0..shards).map(|_| async_channel::bounded(MAILBOX)).unzip();
        let control = Control::new(io.clone(), &found, senders);
        io.spawn(Rc::clone(&control).run(inbox));
        let mut links = Vec::with_capacity(shards);
        for (index, mailbox) in mailboxes.into_iter().enumerate() {
            let config = Rc::clone(&found.config);
            let (io, devices, control) = (io.clone(), &found.devices[..], events.clone());
            let opened = Shard::open(
                OpenShard {
                    io,
                    index,
                    config,
                    devices,
                    control,
                    mode: OpenMode::ReadWrite,
                    table_cache: None,
                },
                mailbox,
            )
            .await;
            links.push(ShardLink::Here(opened.map_err(|error| error.to_string())?.0));
        }
        control.resume(&found).await;
        Ok(OpenPool { control, client: PoolClient::new(io, &found.config, links) })
    }

    /// Every volume there is.
    pub fn volumes(&self) -> Vec<VolumeHandle<SimIo>> {
        let catalog = self.control.catalog();
        let found = catalog.names().into_iter().filter_map(|name| catalog.get(&name));
        found.map(|shared| self.client.volume(shared)).collect()
    }
}

/// The blocks of a member that are not zero, by their offset.
pub type Image = Vec<(u64, Vec<u8>)>;

/// The members of a pool that has lived a little and whose process was killed: mirrored and parity stripes, written
/// pages, and a journal that replay needs.
pub fn images() -> Vec<Image> {
    let (world, candidates) = world();
    let (io, members) = (world.io(), candidates.clone());
    world.block_on(async move { live(io, members).await }).expect("the pool lives");
    world.kill_process();
    candidates.iter().map(|candidate| image(&world, candidate)).collect()
}

async fn live(io: SimIo, members: Vec<Candidate>) {
    let spec = PoolSpec {
        name: "fuzz".to_owned(),
        kind: PoolKind::Mapped { protection: Protection::Parity1, data_columns: 2, checksums: true },
        shards: 1,
        journal_blocks: Some(JOURNAL_BLOCKS),
        force: false,
        physical: None,
    };
    pool::create(&io, &members, &spec).await.expect("created");
    let open = OpenPool::open(io, members).await.expect("opened");
    open.control.create_volume(VOLUME, VOLUME_BYTES).await.expect("room for the volume");
    let volume = open.volumes().remove(0);
    let mut random = 1u64;
    for step in 0..120u64 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let blocks = if step % 20 == 0 { 32 } else { 1 + (random >> 40) % 3 };
        let at = (random >> 33) % (VOLUME_BYTES / 2 / BLOCK as u64 - blocks) * BLOCK as u64;
        let data = Buf::copy_of(&vec![step as u8 + 1; blocks as usize * BLOCK]);
        volume.write(at, data, false).await.expect("room for the data");
        if step % 16 == 15 {
            volume.flush().await.expect("flushed");
            volume.discard(at, 2 * BLOCK as u64).await.expect("discarded");
        }
    }
}

fn image(world: &World, member: &Candidate) -> Image {
    let device = world.device(member.device);
    let blocks = (0..MEMBER_BYTES / BLOCK as u64).map(|i| i * BLOCK as u64);
    blocks.map(|at| (at, device.peek(at, BLOCK))).filter(|(_, bytes)| bytes.iter().any(|&b| b != 0)).collect()
}

/// Puts images onto the members of a fresh world.
pub fn put(world: &World, candidates: &[Candidate], images: &[Image]) {
    for (candidate, image) in candidates.iter().zip(images) {
        let device = world.device(candidate.device);
        image.iter().for_each(|(at, bytes)| device.poke(*at, bytes));
    }
}
