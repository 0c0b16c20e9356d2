//! Opening a pool in the simulated world, as a server does.

use std::rc::Rc;

use sinew_engine::client::{PoolClient, ShardLink, VolumeHandle};
use sinew_engine::control::Control;
use sinew_engine::pool::{self, Candidate, PoolError};
use sinew_engine::recover::{RecoverError, RecoveryReport};
use sinew_engine::shard::Shard;

use crate::random::Rng;
use crate::world::SimIo;

/// Orders waiting at a shard's mailbox at most.
const MAILBOX: usize = 64;

/// An open pool.
pub(crate) struct OpenPool {
    pub(crate) control: Rc<Control<SimIo>>,
    client: PoolClient<SimIo>,
    pub(crate) recovery: RecoveryReport,
}

/// Why it could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    Pool(PoolError),
    Recover(RecoverError),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OpenError::Pool(error) => error.fmt(f),
            OpenError::Recover(error) => error.fmt(f),
        }
    }
}

impl OpenPool {
    /// Opens the pool on these devices. Some shards are reached directly, some by their mailbox, as if on other threads.
    pub(crate) async fn open(
        io: SimIo,
        devices: Vec<Candidate>,
        mut rng: Rng,
    ) -> Result<OpenPool, OpenError> {
        let found = pool::discover(&io, &devices).await.map_err(OpenError::Pool)?;
        let shards = found.config.shape.shards();
        let (events, inbox) = async_channel::bounded(MAILBOX);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..shards).map(|_| async_channel::bounded(MAILBOX)).unzip();
        let control = Control::new(io.clone(), &found, senders.clone());
        {
            use sinew_engine::io::Io;
            io.spawn(Rc::clone(&control).run(inbox));
        }
        let mut links = Vec::with_capacity(shards);
        let mut recovery = RecoveryReport::default();
        for (index, mailbox) in receivers.into_iter().enumerate() {
            let (config, devices) = (Rc::clone(&found.config), &found.devices);
            let opened = Shard::open(io.clone(), index, config, devices, events.clone(), mailbox).await;
            let (shard, report) = opened.map_err(OpenError::Recover)?;
            recovery.add(&report);
            let remote = rng.chance(0.5);
            links.push(if remote {
                ShardLink::There(senders[index].clone())
            } else {
                ShardLink::Here(shard)
            });
        }
        control.resume(&found).await;
        Ok(OpenPool { control, client: PoolClient::new(&found.config, links), recovery })
    }

    /// A volume by name.
    pub(crate) fn volume(&self, name: &str) -> Option<VolumeHandle<SimIo>> {
        Some(self.client.volume(self.control.catalog().get(name)?))
    }
}
