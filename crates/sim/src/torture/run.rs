//! Playing a plan.

mod trouble;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use sinew_engine::buf::BLOCK_BYTES;
use sinew_engine::disk::superblock::MemberState;
use sinew_engine::io::DeviceId;
use sinew_engine::pool::{self, Candidate, PoolSpec};
use sinew_engine::recover::RecoveryReport;
use sinew_engine::status::{CounterValues, ShardStatus};
use sinew_engine::volume::Volume;

use crate::device::{CrashPolicy, DeviceConfig};
use crate::faults::DeviceFaults;
use crate::host::OpenPool;
use crate::random::Rng;
use crate::torture::clients::{Work, client, read};
use crate::torture::oracle::Oracle;
use crate::torture::plan::Plan;
use crate::torture::tenant::Tenancies;
use crate::world::World;

/// Steps after which a phase without end counts as stuck.
const STEPS_MAX: u64 = 3_000_000;
/// Virtual time everything may take to drain once faults have stopped.
const DRAIN_NS: u64 = 600_000_000_000;

/// Time after which nothing of what befell a member is under way any more: longer than any stall.
const QUIET_NS: u64 = 200_000_000;

/// A run that ended well.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Equal for equal runs.
    pub trace_hash: u64,
    /// Requests answered.
    pub requests: u64,
    /// Of those, with "no space left".
    pub no_space: u64,
    /// Events and tasks run.
    pub steps: u64,
    /// How often each path of the engine, each fault of a device and each act of an operator was reached.
    pub reached: BTreeMap<&'static str, u64>,
}

/// A run that found something.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
    /// Which opening of the pool.
    pub opening: usize,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} failed in opening {}: {}", self.seed, self.opening, self.what)
    }
}

impl std::error::Error for Failure {}

/// How an opening of the pool ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    PowerLoss,
    ProcessDeath,
    Close,
}

/// What befalls members and what operators do, as counted in [`Outcome::reached`].
const ACTS: [&str; 8] = [
    "members_detached",
    "members_taken_offline",
    "members_made_to_fail",
    "members_brought_back",
    "members_replaced",
    "members_evacuated",
    "members_slowed",
    "tenancies",
];

struct Run {
    world: World,
    rng: Rng,
    devices: Vec<DeviceId>,
    work: Rc<Work>,
    /// Members that silently corrupt.
    corrupt: BTreeSet<usize>,
    /// Members that are, or recently were, out: redundancy is not restored yet.
    lost: BTreeSet<usize>,
    /// Orders to the control under way.
    orders: Rc<Cell<u32>>,
    /// When the last trouble befell a member: what it set off may still be under way.
    troubled_at: u64,
    tenancies: Rc<Tenancies>,
    counters: CounterValues,
    recovered: RecoveryReport,
    acts: BTreeMap<&'static str, u64>,
    opening: usize,
}

/// Runs a plan to its end.
///
/// # Errors
/// When the engine did something it may not.
pub fn run(plan: &Plan) -> Result<Outcome, Failure> {
    let mut run = Run::new(plan);
    match run.play() {
        Ok(()) => Ok(Outcome {
            trace_hash: run.world.trace_hash(),
            requests: *run.work.answered.borrow(),
            no_space: *run.work.no_space.borrow(),
            steps: run.world.steps(),
            reached: run.reached(),
        }),
        Err(what) => Err(Failure { seed: plan.seed, what, opening: run.opening }),
    }
}

impl Run {
    fn new(plan: &Plan) -> Run {
        let world = World::new(plan.seed);
        world.set_step_limit(STEPS_MAX);
        let devices =
            plan.members.iter().map(|&bytes| world.add_device(DeviceConfig::of_bytes(bytes))).collect();
        let mut rng = world.rng("nemesis");
        let mut order: Vec<usize> = (0..plan.members.len()).collect();
        rng.shuffle(&mut order);
        let work = Work {
            plan: plan.clone(),
            oracle: RefCell::new(Oracle::default()),
            volumes: RefCell::default(),
            wrong: RefCell::default(),
            at_work: RefCell::new(0),
            answered: RefCell::new(0),
            no_space: RefCell::new(0),
        };
        Run {
            corrupt: order.into_iter().take(plan.corrupt).collect(),
            world,
            rng,
            devices,
            work: Rc::new(work),
            lost: BTreeSet::new(),
            orders: Rc::default(),
            troubled_at: 0,
            tenancies: Rc::default(),
            counters: CounterValues::default(),
            recovered: RecoveryReport::default(),
            acts: ACTS.iter().map(|&act| (act, 0)).collect(),
            opening: 0,
        }
    }

    fn reached(&self) -> BTreeMap<&'static str, u64> {
        let recovered = [
            ("recovered_pages", self.recovered.pages),
            ("recovered_blocks", self.recovered.blocks_replayed),
            ("recovered_records_verified", self.recovered.records_verified),
            ("recovered_records_dropped", self.recovered.records_dropped),
            ("out_of_space", *self.work.no_space.borrow()),
        ];
        let mut reached = self.acts.clone();
        reached.insert("tenancies", self.tenancies.begun());
        reached.extend(recovered);
        reached.extend(self.counters.named());
        reached.extend(self.world.fault_counts().named());
        reached
    }

    fn note(&mut self, act: &'static str) {
        *self.acts.get_mut(act).expect("listed in ACTS") += 1;
    }

    fn candidates(&self) -> Vec<Candidate> {
        let candidate = |(i, &device): (usize, &DeviceId)| Candidate { device, path: format!("m{i}") };
        self.devices
            .iter()
            .enumerate()
            .map(candidate)
            .filter(|c| !self.world.device(c.device).is_gone())
            .collect()
    }

    fn play(&mut self) -> Result<(), String> {
        self.create()?;
        for opening in 0..self.work.plan.openings {
            self.opening = opening;
            let Some(pool) = self.open(true)? else { continue };
            self.verify()?;
            self.set_faults();
            let ending = self.labour(&pool)?;
            self.end(pool, ending)?;
        }
        self.opening = self.work.plan.openings;
        self.drain()
    }

    fn create(&mut self) -> Result<(), String> {
        let plan = &self.work.plan;
        let spec = PoolSpec {
            name: "tortured".to_owned(),
            protection: plan.protection,
            data_columns: plan.data_columns,
            shards: plan.shards,
            checksums: plan.checksums,
            journal_blocks: Some(plan.journal_blocks),
            force: false,
        };
        let (io, candidates, volumes) = (self.world.io(), self.candidates(), plan.volumes.clone());
        let made = self.world.block_on(async move { pool::create(&io, &candidates, &spec).await });
        made.map_err(|e| e.to_string())?.map_err(|e| format!("create: {e}"))?;
        let pool = self.open(false)?.ok_or("the pool did not open")?;
        let control = Rc::clone(&pool.control);
        let made = self.world.block_on(async move {
            for (i, blocks) in volumes.into_iter().enumerate() {
                control.create_volume(&format!("v{i}"), blocks * BLOCK_BYTES as u64).await?;
            }
            control.close().await
        });
        made.map_err(|e| e.to_string())?.map_err(|e| format!("volumes: {e}"))?;
        drop(pool);
        self.world.kill_process();
        Ok(())
    }

    /// Opens the pool; `None` when the world ended meanwhile, as it may.
    fn open(&mut self, may_crash: bool) -> Result<Option<Rc<OpenPool>>, String> {
        let opened = Rc::new(Cell::new(None));
        let (slot, io, candidates) = (Rc::clone(&opened), self.world.io(), self.candidates());
        let mut rng = Rng::stream(self.work.plan.seed, "links", self.opening as u64);
        let remote = move || rng.chance(0.5);
        self.world.spawn(async move { slot.set(Some(OpenPool::open(io, candidates, remote).await)) });
        let crash_after = (may_crash && self.rng.chance(0.15)).then(|| self.rng.between(1, 2000));
        if let Some(steps) = crash_after {
            self.world.run_steps(steps);
            if opened.take().is_none() {
                self.end_world(Ending::PowerLoss);
                return Ok(None);
            }
            // It was quicker. Begin again, after the same end.
            self.end_world(Ending::PowerLoss);
            return Ok(None);
        }
        let result = Rc::new(RefCell::new(None));
        let done = {
            let result = Rc::clone(&result);
            let opened = Rc::clone(&opened);
            move || {
                if let Some(found) = opened.take() {
                    *result.borrow_mut() = Some(found);
                }
                result.borrow().is_some()
            }
        };
        self.world.run_until(done).map_err(|e| format!("opening: {e}"))?;
        let found = result.borrow_mut().take().expect("run until then");
        let pool = Rc::new(found.map_err(|e| format!("opening: {e}"))?);
        self.recovered.add(&pool.recovery);
        let volumes = 0..self.work.plan.volumes.len();
        let handles = volumes.filter_map(|i| Some((i, pool.volume(&format!("v{i}"))?))).collect();
        *self.work.volumes.borrow_mut() = handles;
        self.tenancies.reopened(&self.work, &pool)?;
        Ok(Some(pool))
    }

    /// Reads every block and checks it; what is there now has been recovered and is durable.
    fn verify(&mut self) -> Result<(), String> {
        let work = Rc::clone(&self.work);
        let read_all = async move {
            let volumes: Vec<_> = work.volumes.borrow().iter().map(|(&i, v)| (i, v.size_bytes())).collect();
            for (volume, bytes) in volumes {
                let size = bytes / BLOCK_BYTES as u64;
                for start in (0..size).step_by(64) {
                    read(&work, volume, start, 64.min(size - start)).await;
                }
            }
        };
        self.world.block_on(read_all).map_err(|e| format!("verifying: {e}"))?;
        self.check_wrong()?;
        self.work.oracle.borrow_mut().settled();
        Ok(())
    }

    fn check_wrong(&self) -> Result<(), String> {
        match &*self.work.wrong.borrow() {
            Some(what) => Err(what.clone()),
            None => Ok(()),
        }
    }

    /// Lets devices misbehave: corruption on the members set aside for it, slowness everywhere.
    fn set_faults(&mut self) {
        let trouble = self.work.plan.trouble;
        for (i, &id) in self.devices.iter().enumerate() {
            let device = self.world.device(id);
            let mut faults = DeviceFaults {
                stall: trouble / 10.0,
                stall_ns: (1_000_000, 50_000_000),
                ..DeviceFaults::default()
            };
            if self.corrupt.contains(&i) {
                self.world.allow_corruption(id, 0..device.bytes());
                faults.latent_error = trouble / 5.0;
                faults.bit_rot = trouble / 5.0;
                faults.lost_write = trouble / 5.0;
                faults.misdirected_write = trouble / 5.0;
                faults.misdirected_read = trouble / 5.0;
                faults.read_error = trouble / 5.0;
            }
            device.set_faults(faults);
        }
    }

    fn clear_faults(&mut self) {
        for &id in &self.devices {
            self.world.device(id).set_faults(DeviceFaults::default());
        }
        self.world.forbid_corruption();
    }

    /// Clients work and members come and go, until the work is done or the end comes.
    fn labour(&mut self, pool: &Rc<OpenPool>) -> Result<Ending, String> {
        let tenants = usize::from(self.work.plan.tenancies > 0);
        *self.work.at_work.borrow_mut() = self.work.plan.clients + tenants;
        if tenants > 0 {
            let rng = Rng::stream(self.work.plan.seed, "tenant", self.opening as u64);
            let tenancies = Rc::clone(&self.tenancies);
            self.world.spawn(tenancies.live(Rc::clone(&self.work), Rc::clone(pool), rng));
        }
        for i in 0..self.work.plan.clients {
            let rng = Rng::stream(self.work.plan.seed, "client", (self.opening * 1000 + i) as u64);
            self.world.spawn(client(Rc::clone(&self.work), rng));
        }
        let ending = [Ending::PowerLoss, Ending::PowerLoss, Ending::ProcessDeath, Ending::Close]
            [self.rng.below(4) as usize];
        let expected = self.work.plan.requests * self.work.plan.clients as u64;
        let end_at =
            (ending != Ending::Close).then(|| *self.work.answered.borrow() + self.rng.below(expected + 1));
        let started = self.world.steps();
        while *self.work.at_work.borrow() > 0 {
            let ran = self.world.run_steps(self.rng.between(1, 300));
            self.check_wrong()?;
            if end_at.is_some_and(|at| *self.work.answered.borrow() >= at) {
                break;
            }
            if ran == 0 || self.world.steps() - started > STEPS_MAX {
                let why = self.world.run_until(|| false);
                let status = self.collect_quietly(pool);
                return Err(format!("stuck: {why:?}; {status:?}"));
            }
            if self.rng.chance(self.work.plan.trouble) {
                self.trouble(pool);
            }
        }
        Ok(ending)
    }

    fn end(&mut self, pool: Rc<OpenPool>, ending: Ending) -> Result<(), String> {
        self.collect(&pool)?;
        if ending == Ending::Close {
            let control = Rc::clone(&pool.control);
            let closed = self.world.block_on(async move { control.close().await });
            closed.map_err(|e| format!("closing: {e}"))?.map_err(|e| format!("closing: {e}"))?;
        }
        drop(pool);
        self.end_world(ending);
        Ok(())
    }

    fn end_world(&mut self, ending: Ending) {
        self.clear_faults();
        self.orders = Rc::default();
        self.work.volumes.borrow_mut().clear();
        match ending {
            Ending::PowerLoss => {
                self.world.crash(CrashPolicy::Random);
                self.work.oracle.borrow_mut().power_failed();
            }
            Ending::ProcessDeath => {
                self.world.kill_process();
                self.work.oracle.borrow_mut().process_died();
            }
            // A clean close is followed by power loss: nothing may depend on luck.
            Ending::Close => {
                self.work.oracle.borrow_mut().process_died();
                self.work.oracle.borrow_mut().settled();
                self.world.crash(CrashPolicy::Random);
                self.work.oracle.borrow_mut().power_failed();
            }
        }
        // Some that were gone come back with the power; a member may also stay away, or go now.
        for member in 0..self.devices.len() {
            let device = self.world.device(self.devices[member]);
            if device.is_gone() && self.rng.chance(0.5) {
                device.attach();
                self.troubled_at = self.world.now();
            } else if self.lost.len() < self.work.plan.lost
                && !self.corrupt.contains(&member)
                && self.rng.chance(0.1)
            {
                self.lose(member);
                device.detach(CrashPolicy::Random);
            }
        }
    }

    /// Adds up what the engine did; also the place where it must answer.
    fn collect(&mut self, pool: &Rc<OpenPool>) -> Result<ShardStatus, String> {
        let control = Rc::clone(&pool.control);
        let status = self.world.block_on(async move { control.status().await });
        let status = status.map_err(|e| format!("status: {e}"))?.map_err(|e| format!("status: {e}"))?;
        self.counters.add(&status.counters);
        self.check_wrong()?;
        if status.refused_early > 0 {
            let (stored, capacity) = (status.stored_bytes, status.capacity_bytes);
            return Err(format!("refused a write for lack of room with {stored} of {capacity} bytes stored"));
        }
        Ok(status)
    }

    /// Liveness: without faults, everything comes back, is rebuilt, and is whole.
    fn drain(&mut self) -> Result<(), String> {
        self.clear_faults();
        for &id in &self.devices {
            self.world.device(id).attach();
        }
        let pool = self.open(false)?.ok_or("the pool did not open")?;
        self.verify()?;
        for member in 0..self.devices.len() {
            let control = Rc::clone(&pool.control);
            let candidate = Candidate { device: self.devices[member], path: format!("m{member}") };
            let back = self.world.block_on(async move {
                if control.config().members[member].state == MemberState::Active {
                    return Ok(());
                }
                match control.online(member, candidate.clone()).await {
                    Ok(()) => Ok(()),
                    Err(_) => control.replace(member, Some(candidate), true).await,
                }
            });
            back.map_err(|e| e.to_string())?
                .map_err(|e| format!("member {member} does not come back: {e}"))?;
        }
        self.wait_until(&pool, "rebuilding", is_whole)?;
        self.scrub(&pool, true)?;
        let status = self.scrub(&pool, false)?;
        if status > 0 {
            return Err(format!("a second scrub still finds {status} errors"));
        }
        self.verify()?;
        self.collect(&pool)?;
        let control = Rc::clone(&pool.control);
        let closed = self.world.block_on(async move { control.close().await });
        closed.map_err(|e| format!("closing: {e}"))?.map_err(|e| format!("closing: {e}"))?;
        drop(pool);
        self.work.volumes.borrow_mut().clear();
        self.world.crash(CrashPolicy::DropAll);
        self.work.oracle.borrow_mut().process_died();
        let _pool = self.open(false)?.ok_or("the pool did not open")?;
        self.verify()
    }

    /// Scrubs the pool and gives the number of errors found. Without corruption there may be none.
    fn scrub(&mut self, pool: &Rc<OpenPool>, first: bool) -> Result<u64, String> {
        let before = self.collect_quietly(pool)?;
        let control = Rc::clone(&pool.control);
        let begun = self.world.block_on(async move { control.scrub(true).await });
        begun.map_err(|e| e.to_string())?.map_err(|e| format!("scrub: {e}"))?;
        self.wait_until(pool, "scrubbing", |status| status.scrub_stripes_left.is_none())?;
        let after = self.collect_quietly(pool)?;
        let errors = after.counters.scrub_errors - before.counters.scrub_errors;
        if errors > 0 && first && self.corrupt.is_empty() {
            return Err(format!("a scrub finds {errors} errors although no member corrupts data"));
        }
        if after.counters.scrub_unrepaired > 0 {
            return Err(format!("{} chunks cannot be repaired", after.counters.scrub_unrepaired));
        }
        Ok(errors)
    }

    fn collect_quietly(&self, pool: &Rc<OpenPool>) -> Result<ShardStatus, String> {
        let control = Rc::clone(&pool.control);
        let status = self.world.block_on(async move { control.status().await });
        status.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }

    fn wait_until(
        &self,
        pool: &Rc<OpenPool>,
        what: &str,
        done: impl Fn(&ShardStatus) -> bool,
    ) -> Result<(), String> {
        let deadline = self.world.now() + DRAIN_NS;
        loop {
            let status = self.collect_quietly(pool)?;
            if done(&status) {
                return Ok(());
            }
            if self.world.now() > deadline {
                return Err(format!("{what} does not end: {status:?}"));
            }
            self.world.run_for(5_000_000).map_err(|e| format!("{what}: {e}"))?;
        }
    }
}

fn is_whole(status: &ShardStatus) -> bool {
    status.stripes_degraded == 0 && status.metadata_degraded == 0
}
