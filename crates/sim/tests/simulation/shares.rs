//! Shares of volumes that are active at the same time, on the virtual clock: a quiet volume beside a greedy one, greedy ones among
//! themselves, and a volume alone.
//!
//! The scenarios that show deliberate defects say what is wrong instead of panicking.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::policy::{Policy, Shares};
use sinew_members::latency::SpikeAvoidance;
use sinew_members::status::Delayed;
use sinew_sim::{DeviceConfig, Latency, OpenPool, World};

const BLOCK: u64 = BLOCK_BYTES as u64;
const MS: u64 = 1_000_000;
const VOLUME_BYTES: u64 = 32 << 20;

const VOLUMES: [&str; 3] = ["quiet", "greedy", "third"];

/// After this time, a volume that always wants more than its share takes turns.
const GRACE_ENDS: u64 = 300 * MS;

/// What clients of a volume do, again and again.
#[derive(Clone, Copy)]
struct Load {
    volume: &'static str,
    depth: u64,
    blocks: u64,
    writes: bool,
}

const QUIET: Load = Load { volume: "quiet", depth: 1, blocks: 1, writes: false };
const GREEDY: Load = Load { volume: "greedy", depth: 64, blocks: 64, writes: true };

/// What a load was served.
#[derive(Default)]
struct Served {
    /// Latencies, in nanoseconds.
    latencies: RefCell<Vec<u64>>,
    errors: RefCell<Vec<VolumeError>>,
}

impl Served {
    fn requests(&self) -> usize {
        self.latencies.borrow().len()
    }

    /// The latency that one in a hundred requests exceeds.
    fn p99(&self) -> u64 {
        let mut latencies = self.latencies.borrow().clone();
        latencies.sort_unstable();
        latencies[latencies.len() * 99 / 100]
    }
}

/// An open pool with volumes that are written whole.
struct Shared {
    world: World,
    pool: Rc<OpenPool>,
    stopped: Rc<Cell<bool>>,
}

impl Shared {
    /// With all [`VOLUMES`], none of which has been active for long.
    fn new(shards: usize) -> Shared {
        let shared = Shared::of(shards, &VOLUMES, Latency::default());
        shared.world.run_for(1000 * MS).unwrap();
        shared
    }

    fn of(shards: usize, volumes: &[&'static str], latency: Latency) -> Shared {
        let world = World::new(5);
        let config = DeviceConfig { latency, ..DeviceConfig::of_bytes(256 << 20) };
        let candidates: Vec<Candidate> = (0..4)
            .map(|i| Candidate { device: world.add_device(config.clone()), path: format!("d{i}") })
            .collect();
        let kind = PoolKind::Mapped {
            protection: Protection::Mirror { copies: 2 },
            data_columns: 0,
            checksums: true,
        };
        let spec = PoolSpec {
            name: "p".to_owned(),
            kind,
            shards,
            journal_blocks: None,
            force: false,
            physical: None,
        };
        let (io, members) = (world.io(), candidates.clone());
        world.block_on(async move { pool::create(&io, &members, &spec).await }).unwrap().unwrap();
        let mut opened = 0..;
        // The second shard is on another thread.
        let remote = move || opened.next() == Some(1);
        let pool = Rc::new(world.block_on(OpenPool::open(world.io(), candidates, remote)).unwrap().unwrap());
        let shared = Shared { world, pool, stopped: Rc::default() };
        for &name in volumes {
            shared.create(name);
            let volume = shared.pool.volume(name).unwrap();
            let filled = async move { volume.write(0, Buf::zeroed(VOLUME_BYTES as usize), true).await };
            shared.world.block_on(filled).unwrap().unwrap();
        }
        shared
    }

    /// A volume without content.
    fn create(&self, name: &'static str) {
        let control = Rc::clone(&self.pool.control);
        let made = async move { control.create_volume(name, VOLUME_BYTES).await };
        self.world.block_on(made).unwrap().unwrap();
    }

    fn start(&self, load: Load) -> Rc<Served> {
        let served: Rc<Served> = Rc::default();
        for client in 0..load.depth {
            let (volume, io) = (self.pool.volume(load.volume).unwrap(), self.world.io());
            let (served, stopped) = (Rc::clone(&served), Rc::clone(&self.stopped));
            self.world.spawn(async move {
                let mut at = client;
                while !stopped.get() {
                    let began = io.now();
                    let offset = at * load.blocks * BLOCK % VOLUME_BYTES;
                    let bytes = (load.blocks * BLOCK) as usize;
                    let done = match load.writes {
                        true => volume.write(offset, Buf::zeroed(bytes), false).await,
                        false => volume.read(offset, bytes as u32).await.map(drop),
                    };
                    match done {
                        Ok(()) => served.latencies.borrow_mut().push(io.now() - began),
                        Err(error) => return served.errors.borrow_mut().push(error),
                    }
                    at += 7919;
                }
            });
        }
        served
    }

    /// Lets all clients end.
    fn drain(&self) {
        self.stopped.set(true);
        self.world.run_for(1000 * MS).unwrap();
    }

    fn set(&self, shares: Shares) {
        let control = Rc::clone(&self.pool.control);
        let policy = Policy { shares, ..control.policy() };
        self.world.block_on(async move { control.set_policy(policy).await }).unwrap().unwrap();
        self.world.run_for(MS).unwrap();
    }

    /// Requests of the volume that waited for their share.
    fn delayed(&self, name: &str) -> Delayed {
        let control = Rc::clone(&self.pool.control);
        let status = self.world.block_on(async move { control.status().await }).unwrap().unwrap();
        let id = self.pool.control.catalog().get(name).unwrap().id;
        status.volume_queued.get(&id).copied().unwrap_or_default()
    }
}

/// Serves all loads together, and then for half a second that counts.
fn serve(loads: &[Load], shares: Shares) -> Vec<Rc<Served>> {
    let shared = Shared::new(1);
    shared.set(shares);
    let served: Vec<_> = loads.iter().map(|&load| shared.start(load)).collect();
    shared.world.run_for(GRACE_ENDS).unwrap();
    served.iter().for_each(|load| load.latencies.borrow_mut().clear());
    shared.world.run_for(500 * MS).unwrap();
    served
}

#[test]
fn a_quiet_volume_keeps_its_share_beside_a_greedy_one() {
    for (quiet_writes, greedy_writes) in [(false, true), (false, false), (true, true), (true, false)] {
        let quiet = Load { writes: quiet_writes, ..QUIET };
        let greedy = Load { writes: greedy_writes, ..GREEDY };
        let alone = serve(&[quiet], Shares::Off).remove(0).p99();
        let off = serve(&[quiet, greedy], Shares::Off);
        let times = |served: &[Rc<Served>]| served[0].p99() as f64 / alone as f64;
        let kept = |served: &[Rc<Served>]| served[1].requests() as f64 / off[1].requests() as f64;
        let [balanced, latency] =
            [Shares::Balanced, Shares::Latency].map(|shares| serve(&[quiet, greedy], shares));
        let case = format!(
            "quiet writes {quiet_writes}, greedy writes {greedy_writes}: p99 {:.2}, {:.2} and {:.2} times that of alone, requests of \
             the greedy one {:.2} and {:.2}",
            times(&off),
            times(&balanced),
            times(&latency),
            kept(&balanced),
            kept(&latency)
        );
        // A write alone takes no longer than its data, so what it waits for beside others weighs more.
        let (latency_most, balanced_most) = if quiet_writes { (2.0, 5.5) } else { (1.75, 3.5) };
        assert!(times(&off) > 7.0 && times(&latency) < latency_most && kept(&latency) > 0.05, "{case}");
        assert!(times(&balanced) < balanced_most && kept(&balanced) > 0.5, "{case}");
    }
}

#[test]
fn a_volume_alone_loses_nothing() {
    for depth in [1, 8, 64] {
        for writes in [false, true] {
            let load = Load { depth, writes, ..GREEDY };
            let served = [Shares::Off, Shares::Balanced].map(|shares| serve(&[load], shares).remove(0));
            let latencies = served.map(|served| served.latencies.take());
            assert_eq!(latencies[0], latencies[1], "depth {depth}, writes {writes}");
        }
    }
}

#[test]
fn the_only_volume_is_alone_from_the_start() {
    let served = [Shares::Off, Shares::Balanced].map(|shares| {
        let shared = Shared::of(1, &["greedy"], Latency::default());
        shared.set(shares);
        let served = shared.start(GREEDY);
        shared.world.run_for(200 * MS).unwrap();
        assert!(shared.world.now() < 250 * MS + 200 * MS && shared.delayed("greedy").requests == 0);
        served.latencies.take()
    });
    assert_eq!(served[0], served[1]);
}

#[test]
fn a_volume_is_alone_again_soon_after_the_other() {
    let shared = Shared::new(1);
    let volume = shared.pool.volume("quiet").unwrap();
    let greedy = shared.start(GREEDY);
    shared.world.run_for(100 * MS).unwrap();
    let before = greedy.requests();
    shared.world.block_on(async move { volume.read(0, 4096).await }).unwrap().unwrap();
    shared.world.run_for(400 * MS).unwrap();
    let delayed = shared.delayed("greedy").requests;
    let between = greedy.requests();
    shared.world.run_for(100 * MS).unwrap();
    assert_eq!(shared.delayed("greedy").requests, delayed);
    let after = greedy.requests() - between;
    assert!(delayed > 0 && after * 10 > before * 9, "{before} before, {after} after, {delayed} delayed");
    assert_eq!(shared.delayed("quiet").requests, 0);
}

#[test]
fn bursts_enter_at_once() {
    for (shares, wait) in [(Shares::Balanced, false), (Shares::Latency, true)] {
        let shared = Shared::new(1);
        shared.set(shares);
        shared.start(QUIET);
        for _ in 0..4 {
            shared.world.run_for(250 * MS).unwrap();
            for at in 0..64 {
                let volume = shared.pool.volume("greedy").unwrap();
                let data = Buf::zeroed(256 << 10);
                shared.world.spawn(async move { volume.write(at * (256 << 10), data, false).await.unwrap() });
            }
        }
        shared.world.run_for(250 * MS).unwrap();
        let delayed = shared.delayed("greedy").requests;
        assert_eq!(delayed > 0, wait, "{shares:?}: {delayed} requests waited for their turn");
    }
}

/// Bursts of others make requests late. Less work of a backlogged volume does not change that, so it need not wait.
pub(crate) fn bursts_of_others_keep_no_volume_out() -> Result<(), String> {
    let latency = Latency { write_ns: MS * 3 / 10, lanes: 2, ..Latency::default() };
    let shared = Shared::of(1, &VOLUMES, latency);
    shared.start(QUIET);
    shared.start(Load { writes: false, blocks: 4, depth: 32, ..GREEDY });
    for _ in 0..40 {
        let volume = shared.pool.volume("third").unwrap();
        for at in 0..32 {
            let (volume, data) = (volume.clone(), Buf::zeroed(64 << 10));
            shared.world.spawn(async move { volume.write(at * (256 << 10), data, false).await.unwrap() });
        }
        shared.world.run_for(25 * MS).unwrap();
    }
    let waiting = shared.delayed("greedy").ns as f64 / (1000 * MS) as f64;
    let told = format!("{waiting} of 32 requests wait on average");
    eprintln!("{told}");
    if waiting < 8.0 { Ok(()) } else { Err(told) }
}

#[test]
fn a_backlogged_volume_enters_beside_bursts() {
    bursts_of_others_keep_no_volume_out().unwrap();
}

/// A volume that always wants more than its share takes turns.
pub(crate) fn a_greedy_volume_takes_turns() -> Result<(), String> {
    let shared = Shared::new(1);
    let served = [QUIET, GREEDY].map(|load| shared.start(load));
    shared.world.run_for(GRACE_ENDS + 100 * MS).unwrap();
    let (delayed, requests) = (shared.delayed("greedy").requests, served[1].requests());
    if delayed > 10 { Ok(()) } else { Err(format!("{delayed} of {requests} requests waited for their turn")) }
}

#[test]
fn a_greedy_volume_has_no_grace_for_long() {
    a_greedy_volume_takes_turns().unwrap();
}

/// Two volumes that want more than there is are served alike, whatever they send.
pub(crate) fn greedy_volumes_are_served_alike() -> Result<(), String> {
    let deep = Load { depth: 512, writes: false, blocks: 16, ..GREEDY };
    let shallow = Load { volume: "third", depth: 64, ..deep };
    let served = serve(&[deep, shallow], Shares::Balanced);
    let (deep, shallow) = (served[0].requests(), served[1].requests());
    if deep * 4 <= shallow * 5 {
        Ok(())
    } else {
        Err(format!("{deep} requests of one volume, {shallow} of the other"))
    }
}

#[test]
fn shares_do_not_depend_on_queue_depths() {
    greedy_volumes_are_served_alike().unwrap();
}

/// Reads of a volume do not wait for their turn while its writes do.
pub(crate) fn reads_do_not_wait_for_writes() -> Result<(), String> {
    let reads = Load { volume: GREEDY.volume, ..QUIET };
    let served = serve(&[QUIET, reads, GREEDY], Shares::Balanced);
    let (quiet, reads) = (served[0].p99(), served[1].p99());
    let told = format!("p99 of reads is {reads} ns beside writes of their volume, {quiet} ns in another");
    eprintln!("{told}");
    if 4 * reads <= 5 * quiet { Ok(()) } else { Err(told) }
}

#[test]
fn reads_enter_beside_writes_that_wait() {
    reads_do_not_wait_for_writes().unwrap();
}

/// Each end of a request lets the next ones in.
pub(crate) fn ends_wake_those_that_wait() -> Result<(), String> {
    let greedy = Load { writes: false, blocks: 16, ..GREEDY };
    let served = serve(&[greedy, Load { volume: "third", ..greedy }], Shares::Balanced);
    let requests = served[0].requests().min(served[1].requests());
    if requests > 5000 { Ok(()) } else { Err(format!("a volume was served {requests} requests")) }
}

/// Reads of blocks that were never written take no time. They do not tell what others may take, of which most wait all the same.
pub(crate) fn reads_without_content_tell_nothing() -> Result<(), String> {
    let shared = Shared::new(1);
    shared.create("empty");
    let (volume, io) = (shared.pool.volume("empty").unwrap(), shared.world.io());
    let stopped = Rc::clone(&shared.stopped);
    shared.world.spawn(async move {
        while !stopped.get() {
            volume.read(0, BLOCK_BYTES as u32).await.unwrap();
            io.sleep(MS / 20).await;
        }
    });
    for volume in ["greedy", "third"] {
        shared.start(Load { volume, writes: false, blocks: 1, depth: 512 });
    }
    shared.world.run_for(300 * MS).unwrap();
    let before = shared.delayed("greedy").ns;
    shared.world.run_for(200 * MS).unwrap();
    let waiting = (shared.delayed("greedy").ns - before) as f64 / (200 * MS) as f64;
    if (256.0..496.0).contains(&waiting) {
        Ok(())
    } else {
        Err(format!("{waiting} of 512 requests wait on average"))
    }
}

#[test]
fn reads_of_an_empty_volume_slow_no_others() {
    reads_without_content_tell_nothing().unwrap();
}

#[test]
fn requests_that_wait_are_woken() {
    ends_wake_those_that_wait().unwrap();
}

#[test]
fn nothing_is_left_waiting_when_volumes_rest_or_go() {
    for shards in [1, 2] {
        let shared = Shared::new(shards);
        let loads = [QUIET, GREEDY, Load { volume: "third", blocks: 512, ..GREEDY }];
        let served = loads.map(|load| shared.start(load));
        shared.world.run_for(GRACE_ENDS + 100 * MS).unwrap();
        let control = Rc::clone(&shared.pool.control);
        shared.world.block_on(async move { control.delete_volume("third").await }).unwrap().unwrap();
        let flushed = shared.pool.volume("greedy").unwrap();
        let began = shared.world.now();
        shared.world.block_on(async move { flushed.flush().await }).unwrap().unwrap();
        assert!(shared.world.now() - began < 20 * MS);
        shared.world.run_for(400 * MS).unwrap();
        assert!(served[2].errors.borrow().iter().all(|&error| error == VolumeError::Gone));
        assert_eq!(served[2].errors.borrow().len(), 64);
        shared.drain();
        let ended = served[1].requests();
        shared.world.run_for(1000 * MS).unwrap();
        assert!(served[1].requests() == ended && served[1].errors.borrow().is_empty());
        assert!(served[0].requests() > 1000 && ended > 100);
        assert_eq!(Rc::strong_count(&served[1]), 1, "a client still waits");
    }
}

/// Requests that wait for a member that has stopped hold none up that need other members.
pub(crate) fn others_go_on_beside_a_member_that_stops() -> Result<(), String> {
    let shared = Shared::new(1);
    let control = Rc::clone(&shared.pool.control);
    shared.world.block_on(async move { control.set_spike_avoidance(SpikeAvoidance::Off).await }).unwrap();
    let device = shared.world.devices()[0];
    shared.world.device(device).hold_up(600 * MS);
    let ended = Rc::new(Cell::new(0));
    for round in 0..60 {
        for at in 0..32 {
            for volume in ["greedy", "third"] {
                let (volume, ended) = (shared.pool.volume(volume).unwrap(), Rc::clone(&ended));
                shared.world.spawn(async move {
                    let offset = (round * 32 + at) * 7919 * BLOCK % VOLUME_BYTES;
                    volume.read(offset, BLOCK as u32).await.unwrap();
                    ended.set(ended.get() + 1);
                });
            }
        }
        shared.world.run_for(10 * MS).unwrap();
    }
    let ended = ended.get();
    if ended > 3000 { Ok(()) } else { Err(format!("{ended} of 3840 reads ended beside a stopped member")) }
}

#[test]
fn stopped_members_hold_up_no_others() {
    others_go_on_beside_a_member_that_stops().unwrap();
}

#[test]
fn requests_enter_although_others_hang() {
    let shared = Shared::new(1);
    let served = [QUIET, GREEDY].map(|load| shared.start(load));
    shared.world.run_for(500 * MS).unwrap();
    let (before, delayed) = (served[1].requests(), shared.delayed("greedy").requests);
    for device in shared.world.devices() {
        shared.world.device(device).hold_up(2000 * MS);
    }
    shared.world.run_for(1500 * MS).unwrap();
    // None has ended, but all are with the members.
    let stuck = served[1].requests();
    assert!(stuck < before + 64 && shared.delayed("greedy").requests > delayed + 32);
    shared.world.run_for(1500 * MS).unwrap();
    assert!(served[1].requests() > stuck + 1000);
    shared.drain();
}

/// The tasks of requests that wait are dropped when the process ends. Their turns come at once then, one after the other.
#[test]
fn a_process_may_end_while_many_requests_wait() {
    let shared = Shared::new(1);
    let many = Load { depth: 20_000, blocks: 1, writes: false, ..GREEDY };
    let served = [QUIET, many].map(|load| shared.start(load));
    shared.world.run_for(MS).unwrap();
    assert!(served[1].requests() < 10_000);
    drop(shared);
    assert_eq!(Rc::strong_count(&served[1]), 1);
}
