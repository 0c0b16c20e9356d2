//! Playing a plan.

mod drain;
mod growth;
mod opening;
mod places;
mod trouble;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::io::DeviceId;
use sinew_core::volume::Volume;
use sinew_engine::pool::{self, PoolKind, PoolSpec};
use sinew_layout::Level;
use sinew_members::recovery_report::RecoveryReport;
use sinew_members::status::{CounterValues, ShardStatus};

use crate::device::CrashPolicy;
use crate::faults::DeviceFaults;
use crate::handle::Device;
use crate::host::OpenPool;
use crate::latency::Latency;
use crate::random::Rng;
use crate::torture::clients::{Lane, Work, client, read};
use crate::torture::failure::{Failure, Kind, Log, Wrong};
use crate::torture::oracle::Oracle;
use crate::torture::plan::{Corruptor, Ending, MemberPlan, Plan};
use crate::torture::tenant::Tenancies;
use crate::world::World;

use self::trouble::{array_of, is_growing};

/// Steps after which a phase without end counts as stuck.
const STEPS_MAX: u64 = 10_000_000;

/// Memory kept from one run for the next, of each size: about what the members of a run hold.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A run that ended well.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Equal for equal runs.
    pub trace_hash: u64,
    /// Requests answered.
    pub requests: u64,
    /// Of those, with "no space left".
    pub no_space: u64,
    /// Requests that members completed.
    pub member_requests: u64,
    /// Events and tasks run.
    pub steps: u64,
    /// How often each path of the engine, each fault of a device and each act of an operator was reached.
    pub reached: BTreeMap<&'static str, u64>,
}

struct Run {
    world: World,
    /// Paces the looks at the world.
    rng: Rng,
    /// The device of each member; an order under way may change one.
    devices: Rc<RefCell<Vec<DeviceId>>>,
    /// What each device was made as.
    kinds: RefCell<BTreeMap<DeviceId, MemberPlan>>,
    /// Places whose member was removed, or is to be: it does not come back.
    left: Rc<RefCell<BTreeSet<usize>>>,
    /// Paces growth.
    growth_rng: Rng,
    /// What operators did to the number of members so far, and how many devices they have added of the plan's.
    growths: u64,
    added: usize,
    /// Devices that run out of space, those of members and those that were or may become one.
    short: RefCell<Vec<DeviceId>>,
    work: Rc<Work>,
    /// Members that silently corrupt, or run out of space: impaired from beginning to end.
    impaired: BTreeSet<usize>,
    /// Members that are, or recently were, out: redundancy is not restored yet.
    lost: BTreeSet<usize>,
    /// Orders to the control under way.
    orders: Rc<Cell<u32>>,
    /// When the last trouble befell a member: what it set off may still be under way.
    troubled_at: u64,
    /// Troubles so far, those left out included.
    troubles: u64,
    tenancies: Rc<Tenancies>,
    counters: CounterValues,
    recovered: RecoveryReport,
    acts: BTreeMap<&'static str, u64>,
    opening: usize,
}

/// Runs a plan to its end.
///
/// # Errors
/// When the engine did something it may not, a panic included.
pub fn run(plan: &Plan) -> Result<Outcome, Failure> {
    run_logged(plan, 0)
}

/// As [`run`]; a failure tells the last so many things that happened.
///
/// # Errors
/// When the engine did something it may not, a panic included.
pub fn run_logged(plan: &Plan, lines_max: usize) -> Result<Outcome, Failure> {
    let log = Rc::new(Log::of(lines_max));
    let failure = |wrong: Wrong, opening, troubles, steps| Failure {
        plan: Box::new(plan.clone()),
        kind: wrong.kind,
        what: wrong.what,
        opening,
        troubles,
        steps,
        log: log.lines(),
    };
    if let Err(why) = plan.check() {
        return Err(failure(Kind::Impossible.of(why), 0, 0, 0));
    }
    // How far it came, for a run that does not come back.
    let (opening, troubles) = (Cell::new(0), Cell::new(0));
    sinew_core::buf::keep(KEPT_BYTES_MAX);
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new(plan, Rc::clone(&log));
        let played = run.play(&|run| {
            opening.set(run.opening);
            troubles.set(run.troubles);
        });
        match played {
            Ok(()) => Ok(run.outcome()),
            Err(wrong) => Err(failure(wrong, run.opening, run.troubles, run.world.steps())),
        }
    }));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words");
        Err(failure(Kind::Panic.of(text), opening.get(), troubles.get(), 0))
    })
}

/// The name by which the pool knows a device.
fn path_of(device: DeviceId) -> String {
    format!("d{}", device.0)
}

impl Run {
    fn new(plan: &Plan, log: Rc<Log>) -> Run {
        let world = World::new(plan.seed);
        world.set_step_limit(STEPS_MAX);
        let rng = world.rng("nemesis");
        let mut order: Vec<usize> = (0..plan.members.len()).collect();
        world.rng("corrupt").shuffle(&mut order);
        let short = |i: &usize| plan.members[*i].is_short();
        let corrupt: BTreeSet<usize> = order.into_iter().filter(|i| !short(i)).take(plan.corrupt).collect();
        let work = Work {
            plan: plan.clone(),
            volume_blocks: RefCell::new(plan.volume_blocks()),
            oracle: RefCell::new(Oracle::default()),
            volumes: RefCell::default(),
            wrong: RefCell::default(),
            blackout: Cell::new(false),
            at_work: Cell::new(0),
            answered: Cell::new(0),
            no_space: Cell::new(0),
            refused: Cell::new(0),
            io: world.io(),
            log,
        };
        let run = Run {
            impaired: corrupt.into_iter().chain((0..plan.members.len()).filter(short)).collect(),
            world,
            rng,
            devices: Rc::default(),
            kinds: RefCell::default(),
            left: Rc::default(),
            growth_rng: Rng::stream(plan.seed, "growth", 0),
            growths: 0,
            added: 0,
            short: RefCell::default(),
            work: Rc::new(work),
            lost: BTreeSet::new(),
            orders: Rc::default(),
            troubled_at: 0,
            troubles: 0,
            tenancies: Rc::default(),
            counters: CounterValues::default(),
            recovered: RecoveryReport::default(),
            acts: BTreeMap::new(),
            opening: 0,
        };
        for member in 0..plan.members.len() {
            let device = run.add_device(&plan.members[member]);
            run.devices.borrow_mut().push(device);
        }
        run
    }

    /// A new device of this kind.
    fn add_device(&self, kind: &MemberPlan) -> DeviceId {
        let plan = &self.work.plan;
        let mut config = kind.config();
        config.cache_writes = plan.cache_writes;
        config.discard = plan.discard_reads();
        config.latency = Latency { jitter_ns: plan.jitter * 1000, ..config.latency };
        let id = self.world.add_device(config);
        if kind.is_short() {
            self.short.borrow_mut().push(id);
        }
        let mut rng = Rng::stream(plan.seed, "model", u64::from(id.0));
        if let Some(model) = kind.model(&mut rng) {
            self.world.device(id).set_model(model);
        }
        self.kinds.borrow_mut().insert(id, kind.clone());
        id
    }

    /// What the device of a member was made as.
    fn kind(&self, member: usize) -> MemberPlan {
        self.kinds.borrow()[&self.devices.borrow()[member]].clone()
    }

    fn device(&self, member: usize) -> Device {
        self.world.device(self.devices.borrow()[member])
    }

    fn members(&self) -> std::ops::Range<usize> {
        0..self.devices.borrow().len()
    }

    fn note(&self, line: impl FnOnce() -> String) {
        self.work.log.add(self.world.now(), line);
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            trace_hash: self.world.trace_hash(),
            requests: self.work.answered.get(),
            no_space: self.work.no_space.get(),
            member_requests: self
                .world
                .devices()
                .into_iter()
                .map(|d| self.world.device(d).stats().requests())
                .sum(),
            steps: self.world.steps(),
            reached: self.reached(),
        }
    }

    fn reached(&self) -> BTreeMap<&'static str, u64> {
        let mut reached = BTreeMap::from([
            ("recovered_pages", self.recovered.pages),
            ("recovered_blocks", self.recovered.blocks_replayed),
            ("recovered_records_verified", self.recovered.records_verified),
            ("recovered_records_dropped", self.recovered.records_dropped),
            ("out_of_space", self.work.no_space.get()),
            ("refused_in_blackout", self.work.refused.get()),
            ("tenancies", self.tenancies.begun()),
        ]);
        let acts = trouble::ACTS.iter().map(|&act| (act, self.acts.get(act).copied().unwrap_or(0)));
        reached.extend(acts);
        reached.extend(self.counters.named());
        reached.extend(self.world.fault_counts().named());
        reached.extend(self.world.paths_reached().map(|(path, count)| (path.name(), count)));
        reached
    }

    fn count(&mut self, act: &'static str) {
        *self.acts.entry(act).or_default() += 1;
    }

    fn play(&mut self, progress: &impl Fn(&Run)) -> Result<(), Wrong> {
        self.create()?;
        for opening in 0..self.work.plan.openings {
            self.opening = opening;
            progress(self);
            self.trouble_opening();
            let Some(pool) = self.open(true)? else { continue };
            self.set_faults(self.work.plan.corruption);
            self.verify()?;
            let ending = self.labour(&pool)?;
            progress(self);
            self.end(pool, ending)?;
        }
        self.opening = self.work.plan.openings;
        progress(self);
        self.drain()
    }

    fn create(&mut self) -> Result<(), Wrong> {
        let plan = &self.work.plan;
        let (protection, data_columns, checksums) = (plan.protection, plan.data_columns, plan.checksums);
        let kind = match plan.array {
            Some(array) => PoolKind::Array(array),
            None => PoolKind::Mapped { protection, data_columns, checksums },
        };
        let spec = PoolSpec {
            // An array's volume has its name.
            name: if plan.array.is_some() { "v0" } else { "tortured" }.to_owned(),
            kind,
            shards: plan.shards,
            journal_blocks: Some(plan.journal_blocks),
            force: false,
        };
        let (io, mut candidates, volumes) = (self.world.io(), self.candidates(), plan.volumes.clone());
        candidates.truncate(plan.first_members());
        let made = self.world.block_on(async move { pool::create(&io, &candidates, &spec).await });
        made.map_err(|e| Kind::Stuck.of(e))?.map_err(|e| Kind::Impossible.of(format!("create: {e}")))?;
        let pool = self.open(false)?.ok_or(Kind::NotOpened.of("the pool did not open"))?;
        let control = Rc::clone(&pool.control);
        let made = self.world.block_on(async move {
            // An array has its one volume already.
            let made = control.config().volumes.len();
            for (i, blocks) in volumes.into_iter().enumerate().filter(|_| made == 0) {
                control.create_volume(&format!("v{i}"), blocks * BLOCK_BYTES as u64).await?;
            }
            control.close().await
        });
        made.map_err(|e| Kind::Stuck.of(e))?.map_err(|e| Kind::Impossible.of(format!("volumes: {e}")))?;
        drop(pool);
        self.world.kill_process();
        Ok(())
    }

    /// Reads every block and checks it; what is there now has been recovered and is durable.
    fn verify(&mut self) -> Result<(), Wrong> {
        self.find_new_space();
        let work = Rc::clone(&self.work);
        let read_all = async move {
            let volumes: Vec<_> = work.volumes.borrow().iter().map(|(&i, v)| (i, v.size_bytes())).collect();
            for (volume, bytes) in volumes {
                let known = work.volume_blocks.borrow().get(volume).copied();
                // What comes while this goes on is looked at the next time.
                let size = (bytes / BLOCK_BYTES as u64).min(known.unwrap_or(u64::MAX));
                for start in (0..size).step_by(64) {
                    read(&work, volume, start, 64.min(size - start)).await;
                }
            }
        };
        self.world.block_on(read_all).map_err(|e| Kind::Stuck.of(format!("verifying: {e}")))?;
        self.check_wrong()?;
        self.work.oracle.borrow_mut().settled();
        Ok(())
    }

    /// An array that has grown holds anything in its new space, until that is written.
    fn find_new_space(&self) {
        for (&volume, handle) in &*self.work.volumes.borrow() {
            let mut known = self.work.volume_blocks.borrow_mut();
            let Some(known) = known.get_mut(volume).filter(|_| self.work.plan.growing_array().is_some())
            else {
                continue;
            };
            let blocks = handle.size_bytes() / BLOCK_BYTES as u64;
            (*known..blocks).for_each(|block| self.work.oracle.borrow_mut().set_unknown((volume, block)));
            *known = blocks.max(*known);
        }
    }

    fn check_wrong(&self) -> Result<(), Wrong> {
        match &*self.work.wrong.borrow() {
            Some(wrong) => Err(wrong.clone()),
            None => Ok(()),
        }
    }

    /// Lets devices misbehave: corruption on the members set aside for it, at this rate, and slowness everywhere.
    fn set_faults(&mut self, corruption: f64) {
        let plan = &self.work.plan;
        let chance = |kind| if plan.corruptions.contains(&kind) { corruption } else { 0.0 };
        for member in self.members() {
            let device = self.device(member);
            let stall = if plan.troubles.is_empty() { 0.0 } else { plan.trouble.min(0.05) / 10.0 };
            let mut faults =
                DeviceFaults { stall, stall_ns: (1_000_000, 50_000_000), ..DeviceFaults::default() };
            if self.impaired.contains(&member) && plan.corrupt > 0 && !self.kind(member).is_short() {
                self.world.allow_corruption(device.id(), 0..device.bytes());
                faults.latent_error = chance(Corruptor::Latent);
                faults.bit_rot = chance(Corruptor::Rot);
                faults.lost_write = chance(Corruptor::Lost);
                faults.misdirected_write = chance(Corruptor::MisdirectedWrite);
                faults.misdirected_read = chance(Corruptor::MisdirectedRead);
                faults.read_error = chance(Corruptor::ReadError);
            }
            device.set_faults(faults);
        }
    }

    fn clear_faults(&mut self) {
        for id in self.world.devices() {
            self.world.device(id).set_faults(DeviceFaults::default());
        }
        self.world.forbid_corruption();
    }

    /// Sends clients to work on their first requests of this opening.
    fn send_clients(&mut self, pool: &Rc<OpenPool>, requests: u64) {
        let plan = &self.work.plan;
        let tenants = usize::from(plan.tenancies > 0);
        self.work.at_work.set(plan.clients * plan.depth + tenants);
        if tenants > 0 {
            let rng = Rng::stream(plan.seed, "tenant", self.opening as u64);
            let tenancies = Rc::clone(&self.tenancies);
            self.world.spawn(tenancies.live(Rc::clone(&self.work), Rc::clone(pool), rng));
        }
        for i in 0..plan.clients {
            let first = (self.opening * plan.clients + i) as u64 * plan.requests;
            let last = Rc::new(Cell::new((usize::MAX, 0)));
            for lane in 0..plan.depth {
                let (first, end, last) = (first + lane as u64, first + requests, Rc::clone(&last));
                let lane = Lane { first, end, step: plan.depth, last };
                self.world.spawn(client(Rc::clone(&self.work), lane));
            }
        }
    }

    /// Clients work and members come and go, until the work is done or the end comes.
    fn labour(&mut self, pool: &Rc<OpenPool>) -> Result<Ending, Wrong> {
        let plan = &self.work.plan;
        let (seed, requests, clients) = (plan.seed, plan.requests, plan.clients as u64);
        self.order_settings(pool);
        let mut rng = Rng::stream(seed, "ending", self.opening as u64);
        let ending = draw_ending(&plan.endings, &mut rng);
        self.send_clients(pool, requests);
        let end_at =
            (ending != Ending::Close).then(|| self.work.answered.get() + rng.below(requests * clients + 1));
        let started = self.world.steps();
        let mut cut = Rng::stream(seed, "growth cut", self.opening as u64);
        while self.work.at_work.get() > 0 {
            let ran = self.world.run_steps(self.rng.between(1, 300));
            self.check_wrong()?;
            if end_at.is_some_and(|at| self.work.answered.get() >= at) {
                break;
            }
            if ran == 0 || self.world.steps() - started > STEPS_MAX {
                let why = self.world.run_until(|| false);
                let status = self.collect_quietly(pool);
                return Err(Kind::Stuck.of(format!("{why:?}; {status:?}")));
            }
            if self.rng.chance(self.work.plan.trouble) {
                self.trouble(pool);
            }
            if self.work.plan.growing_array().is_some() && self.rng.chance(0.02) {
                self.grow_array(pool);
            }
            self.grow(pool);
            let grows = array_of(pool).is_some_and(|array| is_growing(&array));
            // A close is for when nobody is at work.
            if grows && ending != Ending::Close && cut.chance(self.work.plan.growth_cut) {
                break;
            }
        }
        if ending == Ending::Blackout {
            self.black_out()?;
        }
        Ok(ending)
    }

    /// All members vanish at once. Every request must be answered all the same.
    fn black_out(&mut self) -> Result<(), Wrong> {
        self.note(|| "all members vanish".to_owned());
        self.count("blackouts");
        self.work.blackout.set(true);
        // Spares that are about to become members, too.
        let devices = self.world.devices().into_iter().map(|id| self.world.device(id));
        devices.for_each(|device| device.detach(CrashPolicy::Random));
        let (work, orders) = (Rc::clone(&self.work), Rc::clone(&self.orders));
        let done = move || work.at_work.get() == 0 && orders.get() == 0;
        self.world.run_until(done).map_err(|why| {
            let left = self.work.at_work.get();
            Kind::Stuck.of(format!("{left} clients wait though all members are gone: {why}"))
        })?;
        self.check_wrong()
    }

    fn end(&mut self, pool: Rc<OpenPool>, ending: Ending) -> Result<(), Wrong> {
        self.collect(&pool)?;
        if ending == Ending::Close {
            self.close(&pool)?;
        }
        drop(pool);
        self.end_world(ending);
        Ok(())
    }

    fn close(&self, pool: &OpenPool) -> Result<(), Wrong> {
        let control = Rc::clone(&pool.control);
        let closed = self.world.block_on(async move { control.close().await });
        let not_closed = |e: &dyn std::fmt::Display| Kind::NotOpened.of(format!("closing: {e}"));
        closed.map_err(|e| not_closed(&e))?.map_err(|e| not_closed(&e))
    }

    fn end_world(&mut self, ending: Ending) {
        self.note(|| format!("end: {}", ending.name()));
        self.clear_faults();
        self.orders = Rc::default();
        self.work.volumes.borrow_mut().clear();
        match ending {
            Ending::PowerLoss => {
                self.world.crash(CrashPolicy::Random);
                self.work.oracle.borrow_mut().power_failed();
            }
            Ending::ProcessDeath => self.world.kill_process(),
            // A clean close is followed by power loss: nothing may depend on luck.
            Ending::Close => {
                self.work.oracle.borrow_mut().process_died();
                self.work.oracle.borrow_mut().settled();
                self.world.crash(CrashPolicy::Random);
                self.work.oracle.borrow_mut().power_failed();
            }
            Ending::Blackout => {
                self.world.kill_process();
                self.work.oracle.borrow_mut().power_failed();
                self.work.blackout.set(false);
                // Those that were gone before may well be back, too.
                let devices = self.world.devices().into_iter().map(|id| self.world.device(id));
                devices.for_each(|device| device.attach());
                self.troubled_at = self.world.now();
            }
        }
        self.end_needed_silence();
        self.change_members();
        if ending == Ending::ProcessDeath {
            self.process_died();
        }
    }

    /// Without checksums or a log nobody can tell which copy of a mirror went back in time unnoticed.
    fn process_died(&mut self) {
        let is_mirror = matches!(self.work.plan.array, Some(spec) if matches!(spec.level, Level::Raid1 | Level::Raid10 { .. }));
        let oracle = &mut self.work.oracle.borrow_mut();
        match is_mirror && self.members().any(|member| self.device(member).is_gone()) {
            true => oracle.power_failed(),
            false => oracle.process_died(),
        }
    }

    /// Members that the pool cannot be opened without answer again.
    fn end_needed_silence(&self) {
        for member in self.members().filter(|member| !self.lost.contains(member)) {
            self.device(member).end_silence();
        }
    }

    /// Some that were gone come back with the power; a member may also stay away, or go now.
    fn change_members(&mut self) {
        // By time, so that each end of an opening that never came to be is another.
        let mut rng = Rng::stream(self.work.plan.seed, "change", self.world.incarnation().into());
        for member in self.members() {
            let device = self.device(member);
            let (back, goes) = (rng.chance(0.5), rng.chance(0.1));
            if device.is_gone() && back {
                self.note(|| format!("member {member} is back"));
                device.attach();
                self.troubled_at = self.world.now();
            } else if !device.is_gone() && goes && self.may_lose(member) {
                self.note(|| format!("member {member} goes"));
                self.lose(member);
                device.detach(CrashPolicy::Random);
            }
        }
    }

    /// Adds up what the engine did; also the place where it must answer.
    fn collect(&mut self, pool: &Rc<OpenPool>) -> Result<ShardStatus, Wrong> {
        let status = self.collect_quietly(pool)?;
        self.counters.add(&status.counters);
        self.check_wrong()?;
        if status.refused_early > 0 {
            let (stored, capacity) = (status.stored_bytes, status.capacity_bytes);
            let what = format!("refused a write for lack of room with {stored} of {capacity} bytes stored");
            return Err(Kind::WrongAnswer.of(what));
        }
        Ok(status)
    }

    fn collect_quietly(&self, pool: &Rc<OpenPool>) -> Result<ShardStatus, Wrong> {
        let control = Rc::clone(&pool.control);
        let status = self.world.block_on(async move { control.status().await });
        let status = status.map_err(|e| Kind::Stuck.of(format!("status: {e}")))?;
        status.map_err(|e| Kind::WrongAnswer.of(format!("status: {e}")))
    }
}

/// Power fails as often as everything else together, all members at once rarely: it takes no work to lose everything.
fn draw_ending(endings: &[Ending], rng: &mut Rng) -> Ending {
    let weight = |ending: &Ending| match ending {
        Ending::PowerLoss => 8,
        Ending::ProcessDeath | Ending::Close => 4,
        Ending::Blackout => 1,
    };
    let mut left = rng.below(endings.iter().map(weight).sum());
    let chosen = endings.iter().find(|ending| {
        let found = left < weight(ending);
        left = left.saturating_sub(weight(ending));
        found
    });
    chosen.copied().unwrap_or(Ending::PowerLoss)
}
