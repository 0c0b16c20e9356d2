//! The pool of a daemon, as its answers need it: state, history, events. The control socket and the page share it.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use sinew_core::io::Io;
use sinew_format::model::pool_geometry::PoolGeometry;

use super::addresses::Addresses;
use super::history::Samples;
use super::rates::Rates;
use super::vhost_sockets::VhostSocket;
use super::volume_stats::VolumeStats;
use crate::pool::host::Open;
use crate::protocol::answer::{EventList, HistoryView};
use crate::protocol::state::{InjectedFault, NbdPlaces, PoolState, ThrottleState, VhostUserPlace};
use crate::protocol::{self, status};

/// How long a request for events waits for one, and how often it looks.
const EVENT_WAIT_NS: u64 = 30_000_000_000;
const EVENT_PAUSE_NS: u64 = 50_000_000;

/// The pool that requests are about.
pub(super) struct Served {
    pub(super) open: Rc<Open>,
    addresses: Addresses,
    /// What its clients asked for.
    pub(super) stats: VolumeStats,
    rates: Rates,
    samples: Samples,
    /// When the clock of the events was at 0.
    started: SystemTime,
}

impl Served {
    /// A pool that has just been opened.
    pub(super) fn new(open: Rc<Open>, addresses: Addresses, stats: VolumeStats) -> Rc<Served> {
        let started = SystemTime::now() - Duration::from_nanos(open.io.now());
        let since = started.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        open.control.set_wall_clock(since);
        let (rates, samples) = (Rates::default(), Samples::default());
        Rc::new(Served { open, addresses, stats, rates, samples, started })
    }

    /// Begins to look at the pool again and again, until it is gone.
    pub(super) fn watch(self: &Rc<Self>) {
        let watched = Rc::clone(self);
        self.open.io.spawn(async move { watched.rates.watch(&watched.open).await });
        let watched = Rc::clone(self);
        self.open.io.spawn(async move { watched.samples.watch(&watched.open).await });
    }

    /// The state of the pool.
    ///
    /// # Errors
    /// When a shard is gone.
    pub(super) async fn state(&self) -> Result<PoolState> {
        let Served { open, addresses, rates, .. } = self;
        let control = &open.control;
        let (config, shards, unnamed) = (control.config(), control.status().await?, control.unnamed());
        let observed = control.observed(&config, &shards, &unnamed);
        let mut state = status::pool(&observed, &control.space(), &addresses.control);
        let done = control.work_done();
        state.work = done.into_iter().filter_map(|(work, done)| rates.work(work, done, &shards)).collect();
        state.policy = match config.geometry {
            PoolGeometry::Mapped(_) => Some(status::policy(&control.policy())),
            PoolGeometry::Array(_) => None,
        };
        let limits = control.limits();
        state.throttle = ThrottleState {
            bytes_per_second: limits.bytes_per_second,
            pause_above_iops: limits.pause_above_iops,
        };
        state.spike_avoidance = control.spike_avoidance().name().to_owned();
        state.table_cache_bytes = control.table_cache();
        state.io_timeout_s = control.io_timeout().map(|ns| ns as f64 / 1e9);
        state.rebuild_after_s = control.rebuild_after().map(|ns| ns as f64 / 1e9);
        state.rebuild_room = control.has_room_to_rebuild().await?;
        state.nbd = NbdPlaces {
            unix: addresses.unix.as_ref().map(|path| path.display().to_string()),
            tcp: addresses.tcp.map(|address| address.to_string()),
            tls: addresses.tls.name().to_owned(),
        };
        let place = |at: &VhostSocket| VhostUserPlace {
            volume: at.volume.clone(),
            unix: at.path.display().to_string(),
        };
        state.vhost_user = addresses.vhost_user.iter().map(place).collect();
        state.ublk = addresses.block_devices.clone();
        state.metrics = addresses.metrics.map(|address| address.to_string());
        state.http = addresses.http.map(|address| address.to_string());
        state.per_second = rates.per_second();
        for volume in &mut state.volumes {
            let shared = control.catalog().get(&volume.name);
            let Some(shared) = shared else { continue };
            volume.connections = shared.connections() as u64;
            volume.delayed_requests = shared.delayed().requests;
        }
        for member in &mut state.members {
            member.timed_out = control.has_timed_out(member.member);
            let injected = |(fault, requests)| InjectedFault { fault, requests };
            member.faults = open.faults(&member.path).into_iter().map(injected).collect();
        }
        Ok(state)
    }

    /// The last minutes.
    pub(super) fn history(&self) -> HistoryView {
        self.samples.view()
    }

    /// What has happened after the event of this number. A wait ends in any case, since the client may have left.
    pub(super) async fn events(&self, after: u64, wait: bool) -> EventList {
        let (events, io) = (self.open.control.events(), &self.open.io);
        let began = io.now();
        while wait && events.last() <= after && io.now() - began < EVENT_WAIT_NS {
            io.sleep(EVENT_PAUSE_NS).await;
        }
        let new = events.after(after);
        EventList {
            events: new.iter().map(|entry| protocol::events::entry(entry, self.started)).collect(),
            last: events.last(),
        }
    }
}
