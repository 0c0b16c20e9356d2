//! What a thread of the pool serves beside the connections of NBD: work that the first thread hands to it.

use std::rc::Rc;

use async_channel::Receiver;
use sinew_core::volume::Volume;
use sinew_engine::client::{Connection, PoolClient};
use sinew_uring::UringIo;

use super::volume_stats::ThreadStats;

/// Work on its way to its thread: it begins tasks there.
pub(super) type Handed = Box<dyn FnOnce(&PoolThread) + Send>;

/// One thread.
pub(super) struct PoolThread {
    pub(super) io: UringIo,
    client: PoolClient<UringIo>,
    stats: Rc<ThreadStats>,
}

impl PoolThread {
    pub(super) fn new(io: UringIo, client: PoolClient<UringIo>, stats: Rc<ThreadStats>) -> PoolThread {
        PoolThread { io, client, stats }
    }

    /// The volume of a connection, whose requests are counted.
    pub(super) fn volume(&self, connection: &Connection) -> impl Volume {
        let volume = self.client.volume_of(connection);
        self.stats.counted(&self.io, connection.volume().id, volume)
    }

    /// Takes work until there will be none.
    pub(super) async fn serve(self, work: Receiver<Handed>) {
        while let Ok(begin) = work.recv().await {
            begin(&self);
        }
    }
}
