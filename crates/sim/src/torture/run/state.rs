//! The state of a run: the world, its devices, the members that are impaired or lost, and what has been counted.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::rc::Rc;

use sinew_core::coverage::MarkName;
use sinew_core::io::DeviceId;
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::config::MemberState;
use sinew_members::recovery_report::RecoveryReport;
use sinew_members::status::{CounterValues, ShardStatus};

use crate::faults::DeviceFaults;
use crate::handle::Device;
use crate::host::OpenPool;
use crate::latency::Latency;
use crate::lengths::Lengths;
use crate::random::Rng;
use crate::torture::clients::Work;
use crate::torture::failure::{Kind, Log, Wrong};
use crate::torture::limit_check::LimitCheck;
use crate::torture::oracle::Oracle;
use crate::torture::plan::{Corruptor, MemberPlan, Plan};
use crate::torture::tenant::Tenancies;
use crate::world::World;

use super::acts::ACTS;
use super::parts;

/// Steps after which a phase without end counts as stuck.
pub(super) const STEPS_MAX: u64 = 10_000_000;
/// Virtual time that anything may take once faults have stopped.
const DRAIN_NS: u64 = 600_000_000_000;
/// Shortest and longest time between two polls of the pool's status.
const POLL_NS: (u64, u64) = (2_000_000, 1_000_000_000);

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
    /// How often each coverage mark of the engine, each fault of a device and each act was reached.
    pub reached: BTreeMap<&'static str, u64>,
}

/// A run under way.
pub(super) struct Run {
    pub(super) world: World,
    /// Paces the checks of the world.
    pub(super) rng: Rng,
    /// The device of each member; an order under way may change one.
    pub(super) devices: Rc<RefCell<Vec<DeviceId>>>,
    /// The kind of each device.
    pub(super) kinds: RefCell<BTreeMap<DeviceId, MemberPlan>>,
    /// Places whose member was removed, or is being removed: it does not come back.
    pub(super) left: Rc<RefCell<BTreeSet<usize>>>,
    /// Paces growth.
    pub(super) growth_rng: Rng,
    /// Orders so far that changed the number of members, and devices of the plan added by them.
    pub(super) growths: u64,
    pub(super) added: usize,
    /// Orders so far that changed the share of mirrored stripes.
    pub(super) shares_ordered: u64,
    /// Devices that run out of space: those of members, of earlier members and of later ones.
    pub(super) short: RefCell<Vec<DeviceId>>,
    pub(super) work: Rc<Work>,
    /// Members that silently corrupt, or run out of space: impaired from beginning to end.
    pub(super) impaired: BTreeSet<usize>,
    /// Members that are, or recently were, out: redundancy is not restored yet.
    pub(super) lost: BTreeSet<usize>,
    /// Members that hung while the pool needed them: until all are whole they may go out in place of others.
    pub(super) needed: BTreeSet<usize>,
    /// Checks of the world since a client was last answered.
    pub(super) unanswered: u32,
    /// Orders to the control under way.
    pub(super) orders: Rc<Cell<u32>>,
    /// Time of the last trouble of a member: its consequences may still be under way.
    pub(super) troubled_at: u64,
    /// Troubles so far, those left out included.
    pub(super) troubles: u64,
    /// Paces the other tenants of thin members.
    pub(super) squeeze_rng: Rng,
    /// Paces changes of limits.
    pub(super) limits_rng: Rng,
    pub(super) tenancies: Rc<Tenancies>,
    pub(super) counters: CounterValues,
    pub(super) recovered: RecoveryReport,
    pub(super) acts: BTreeMap<&'static str, u64>,
    /// Marks reached in inspections.
    pub(super) inspected: BTreeMap<MarkName, u64>,
    pub(super) opening: usize,
}

/// The name by which the pool knows a device.
pub(super) fn path_of(device: DeviceId) -> String {
    format!("d{}", device.0)
}

impl Run {
    pub(super) fn new(plan: &Plan, log: Rc<Log>) -> Run {
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
            limits: LimitCheck::default(),
            wrong: RefCell::default(),
            blackout: Cell::new(false),
            at_work: Cell::new(0),
            answered: Cell::new(0),
            no_space: Cell::new(0),
            refusals: Cell::new(0),
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
            shares_ordered: 0,
            short: RefCell::default(),
            work: Rc::new(work),
            lost: BTreeSet::new(),
            needed: BTreeSet::new(),
            unanswered: 0,
            orders: Rc::default(),
            troubled_at: 0,
            troubles: 0,
            squeeze_rng: Rng::stream(plan.seed, "squeeze", 0),
            limits_rng: Rng::stream(plan.seed, "limits", 0),
            tenancies: Rc::default(),
            counters: CounterValues::default(),
            recovered: RecoveryReport::default(),
            acts: BTreeMap::new(),
            inspected: BTreeMap::new(),
            opening: 0,
        };
        for member in 0..plan.members.len() {
            let device = run.add_device(&plan.members[member]);
            run.devices.borrow_mut().push(device);
        }
        run
    }

    /// A new device of this kind.
    pub(super) fn add_device(&self, kind: &MemberPlan) -> DeviceId {
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
        if plan.physical > 0 {
            let device = self.world.device(id);
            let lengths = if plan.compressing { Lengths::Lz4 } else { Lengths::Whole };
            device.set_compressing(plan.physical_bytes(device.bytes()), lengths);
            let made = self.kinds.borrow().keys().next().copied();
            if let Some(first) = made.filter(|_| self.kinds.borrow().len() < plan.shared_space) {
                device.share_space(first);
            }
        }
        self.kinds.borrow_mut().insert(id, kind.clone());
        id
    }

    /// The kind of a member's device.
    pub(super) fn kind(&self, member: usize) -> MemberPlan {
        self.kinds.borrow()[&self.devices.borrow()[member]].clone()
    }

    pub(super) fn device(&self, member: usize) -> Device {
        self.world.device(self.devices.borrow()[member])
    }

    pub(super) fn members(&self) -> std::ops::Range<usize> {
        0..self.devices.borrow().len()
    }

    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        self.work.log.add(self.world.now(), line);
    }

    pub(super) fn count(&mut self, act: &'static str) {
        *self.acts.entry(act).or_default() += 1;
    }

    pub(super) fn outcome(&self) -> Outcome {
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
        let acts = ACTS.iter().map(|&act| (act, self.acts.get(act).copied().unwrap_or(0)));
        reached.extend(acts);
        reached.extend(self.counters.named());
        reached.extend(self.world.fault_counts().named());
        reached.extend(self.world.marks_reached().into_iter().map(|(mark, count)| (mark.text(), count)));
        reached.extend(parts::used(self.kinds.borrow().keys().map(|&id| self.world.device(id))));
        for (mark, count) in &self.inspected {
            *reached.entry(mark.text()).or_default() += count;
        }
        reached
    }

    /// Fails when a member had to refuse a write although no other tenant took its space: clients were to be refused before.
    pub(super) fn check_credit(&self) -> Result<(), Wrong> {
        let plan = &self.work.plan;
        let is_squeezed = plan.squeeze > 0.0 || plan.full_openings > 0.0;
        let is_tight = plan.physical > 0 && !is_squeezed && plan.array.is_some();
        match self.world.fault_counts().no_space {
            1.. if is_tight && self.short.borrow().is_empty() => {
                Err(Kind::WrongAnswer.of("a member had no space for a write that was admitted"))
            }
            _ => Ok(()),
        }
    }

    /// Fails when a client got a wrong answer.
    pub(super) fn check_wrong(&self) -> Result<(), Wrong> {
        match &*self.work.wrong.borrow() {
            Some(wrong) => Err(wrong.clone()),
            None => Ok(()),
        }
    }

    /// Switches faults on: corruption at this rate on the members that corrupt data, and stalls on all.
    pub(super) fn set_faults(&mut self, corruption: f64) {
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

    pub(super) fn clear_faults(&mut self) {
        for id in self.world.devices() {
            self.world.device(id).set_faults(DeviceFaults::default());
        }
        self.world.forbid_corruption();
    }

    /// Adds the pool's counters to those of the run, and checks its status.
    pub(super) fn collect(&mut self, pool: &Rc<OpenPool>) -> Result<ShardStatus, Wrong> {
        let status = self.collect_quietly(pool)?;
        self.counters.add(&status.counters);
        self.check_wrong()?;
        if status.refused_early > 0 {
            let (stored, capacity) = (status.stored_bytes, status.capacity_bytes);
            let what = format!("refused a write for lack of room with {stored} of {capacity} bytes stored");
            return Err(Kind::WrongAnswer.of(what));
        }
        self.check_stored(pool, &status)?;
        Ok(status)
    }

    /// The states of the members.
    pub(super) fn states(&self, pool: &OpenPool) -> Vec<MemberState> {
        pool.control.config().members.iter().map(|member| member.state).collect()
    }

    /// No more than the capacity of a mapped pool is stored while all members are active. After an evacuation the others may have
    /// less capacity than is stored.
    fn check_stored(&self, pool: &Rc<OpenPool>, status: &ShardStatus) -> Result<(), Wrong> {
        let all_active = self.states(pool).iter().all(|&state| state == MemberState::Active);
        let (stored, capacity) = (status.stored_bytes, status.capacity_bytes);
        if self.work.plan.array.is_none() && all_active && stored > capacity {
            return Err(
                Kind::WrongAnswer.of(format!("{stored} bytes stored, and {capacity} is the capacity"))
            );
        }
        Ok(())
    }

    pub(super) fn collect_quietly(&self, pool: &Rc<OpenPool>) -> Result<ShardStatus, Wrong> {
        let control = Rc::clone(&pool.control);
        let status = self.world.block_on(async move { control.status().await });
        let status = status.map_err(|e| Kind::Stuck.of(format!("status: {e}")))?;
        status.map_err(|e| Kind::WrongAnswer.of(format!("status: {e}")))
    }

    /// Lets the pool work until its status meets a condition.
    pub(super) fn wait_until(
        &self,
        pool: &Rc<OpenPool>,
        what: &str,
        done: impl Fn(&ShardStatus) -> bool,
    ) -> Result<(), Wrong> {
        let deadline = self.world.now() + DRAIN_NS;
        let mut pause = POLL_NS.0;
        loop {
            let status = self.collect_quietly(pool)?;
            self.check_wrong()?;
            if done(&status) {
                return Ok(());
            }
            if self.world.now() > deadline {
                return Err(Kind::NotDrained.of(format!("{what} does not end: {status:?}")));
            }
            self.world.run_for(pause).map_err(|e| Kind::NotDrained.of(format!("{what}: {e}")))?;
            pause = (pause * 5 / 4).min(POLL_NS.1);
        }
    }

    /// Has an operator give an order to the control.
    pub(super) fn order(&self, order: impl Future<Output = ()> + 'static) {
        let orders = Rc::clone(&self.orders);
        orders.set(orders.get() + 1);
        self.world.spawn(async move {
            order.await;
            orders.set(orders.get() - 1);
        });
    }

    /// Whether a member may be lost such that no more members are impaired than the protection covers. None may after a member
    /// hung that the pool needed: it may go out in place of one that came back.
    pub(super) fn may_lose(&self, member: usize) -> bool {
        self.needed.is_empty() && self.may_be_lost(self.lost.iter().chain([&member]))
    }

    /// Whether these members, without impaired ones, are no more than may be lost at one time.
    pub(super) fn may_be_lost<'a>(&self, members: impl Iterator<Item = &'a usize>) -> bool {
        let members: BTreeSet<usize> = members.filter(|m| !self.impaired.contains(m)).copied().collect();
        members.len() <= self.work.plan.lost
    }

    /// Counts a member as lost.
    pub(super) fn lose(&mut self, member: usize) {
        self.lost.insert(member);
        self.troubled_at = self.world.now();
    }

    /// Repairs the device; the member still counts as lost until the pool is whole.
    pub(super) fn mend(&mut self, member: usize) {
        let device = self.device(member);
        device.attach();
        device.set_faults(DeviceFaults { write_error: 0.0, flush_error: 0.0, ..device.faults() });
        self.lost.insert(member);
        self.troubled_at = self.world.now();
    }
}

/// The geometry of the array, if the pool is one.
pub(super) fn array_of(pool: &OpenPool) -> Option<ArrayGeometry> {
    pool.control.config().geometry.array().copied()
}

/// Whether a growth is under way.
pub(super) fn is_growing(array: &ArrayGeometry) -> bool {
    array.grown.is_some_and(|grown| grown.method().is_some())
}

/// Whether no stripe and no metadata is degraded.
pub(super) fn is_whole(status: &ShardStatus) -> bool {
    status.stripes_degraded == 0 && status.metadata_unsettled == 0
}
