//! The shards of a pool on threads: shard i is on thread i mod the number of threads, each of which reaches the shards of the
//! others by the handover.

use std::collections::BTreeMap;
use std::rc::Rc;

use async_channel::{Receiver, Sender};
use sinew_core::io::{DeviceId, Io};
use sinew_format::model::config::Config;
use sinew_members::message::{ControlRequest, ShardEvent};
use sinew_members::open_error::RecoverError;
use sinew_members::open_mode::OpenMode;
use sinew_members::recovery_report::RecoveryReport;

use crate::client::{PoolClient, ShardLink};
use crate::handover::{self, Endpoint, Handover};
use crate::pool::Found;
use crate::shard::{self, Shard};

/// What a thread needs to open its shards; it may be sent there.
pub struct ThreadSeed {
    threads: usize,
    config: Config,
    devices: Vec<Option<DeviceId>>,
    mailboxes: Vec<(usize, Receiver<ControlRequest>)>,
    endpoint: Endpoint,
    events: Sender<ShardEvent>,
    mode: OpenMode,
    table_cache: Option<u64>,
}

/// The shards that a thread has opened.
pub struct ThreadShards<I: Io> {
    /// The way of this thread to all shards of the pool.
    pub client: PoolClient<I>,
    /// What was done to open them.
    pub recovery: RecoveryReport,
    /// By their numbers.
    pub shards: BTreeMap<usize, Shard<I>>,
}

/// What each of these threads needs to open its shards of a pool.
pub fn thread_seeds(
    found: &Found,
    threads: usize,
    mailboxes: Vec<Receiver<ControlRequest>>,
    events: &Sender<ShardEvent>,
) -> Vec<ThreadSeed> {
    let seed = |endpoint| ThreadSeed {
        threads,
        config: (*found.config).clone(),
        devices: found.devices.clone(),
        mailboxes: Vec::new(),
        endpoint,
        events: events.clone(),
        mode: found.mode,
        table_cache: found.table_cache,
    };
    let endpoints = handover::endpoints(threads, handover::usual_room(threads));
    let mut seeds: Vec<ThreadSeed> = endpoints.into_iter().map(seed).collect();
    for (shard, mailbox) in mailboxes.into_iter().enumerate() {
        seeds[shard % threads].mailboxes.push((shard, mailbox));
    }
    seeds
}

impl ThreadSeed {
    /// Opens the shards of this thread.
    ///
    /// # Errors
    /// Those of [`shard::open_shards`].
    pub async fn open<I: Io>(self, io: &I) -> Result<ThreadShards<I>, RecoverError> {
        let ThreadSeed { threads, config, devices, mailboxes, endpoint, events, mode, table_cache } = self;
        let config = Rc::new(config);
        let opened = shard::open_shards(io, &config, &devices, mailboxes, &events, mode, table_cache).await;
        let (shards, recovery) = opened?;
        let handover = Handover::new(endpoint);
        let link = |index| match shards.get(&index) {
            Some(shard) => ShardLink::Here(shard.clone()),
            None => ShardLink::There { handover: Rc::clone(&handover), thread: index % threads },
        };
        let links = (0..config.geometry.shards()).map(link).collect();
        handover.start(io, shards.clone());
        Ok(ThreadShards { client: PoolClient::new(io.clone(), &config, links), recovery, shards })
    }
}
