//! The pool's control: the only writer of the configuration.
//!
//! It runs on one thread and talks to the shards through their mailboxes. A change of the configuration is durable on
//! every active member before it takes effect; a member that fails is recorded as out before any write that skipped
//! it is acknowledged.

mod absence;
mod absent_members;
mod damage;
mod error;
pub mod events;
pub mod health;
mod hung_members;
mod md_dirty;
mod member_states;
mod membership;
mod observation;
mod observe;
mod outgoing;
pub mod physical_space;
mod replace;
mod reshape;
mod settings;
mod space;
mod spares;
mod store;
mod volumes;

use std::rc::Rc;

use async_channel::Receiver;

pub use crate::client::directory::Catalog;
use crate::control::events::{Event, MemberChange};
use crate::marks::Mark;
use crate::pool::{Candidate, Found};
pub use error::{ControlError, MembershipError};
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::config::MemberState;
use sinew_members::message::ControlRequest;
use sinew_members::message::ShardEvent;
pub use store::Control;
pub use volumes::VolumeOptions;

impl<I: Io> Control<I> {
    /// Answers the shards' events until every shard is gone. To be spawned before the shards are opened.
    pub async fn run(self: Rc<Self>, events: Receiver<ShardEvent>) {
        self.watch_io_timeouts();
        while let Ok(event) = events.recv().await {
            let control = Rc::clone(&self);
            self.io.spawn(async move { control.take_event(event).await });
        }
    }

    /// What is left to do once all shards are open: take back members that have returned, finish deleting volumes.
    pub async fn resume(self: &Rc<Self>, found: &Found) {
        self.is_open.set(true);
        self.sample_space().await;
        self.tell_elastic_policy().await;
        let out = self.config.borrow().out().into_iter().enumerate().filter(|(_, is_out)| *is_out);
        let out = out.map(|(member, _)| member).collect();
        self.note(Event::Opened { out, mode: self.mode });
        if self.mode.is_read_only() {
            self.read_returned(found).await;
            return self.tell_missing();
        }
        for &(member, device) in &found.returned {
            self.io.mark(Mark::OpenedWithReturned);
            let path = self.config.borrow().members[usize::from(member.0)].path.clone();
            // A member that cannot be taken back stays missing, and the status says so.
            let _ = self.online(usize::from(member.0), Candidate { device, path }).await;
        }
        self.tell_missing();
        for &(member, device) in &found.removed {
            self.io.mark(Mark::OpenedWithRemoved);
            self.clear(usize::from(member.0), device).await;
        }
        let deleting: Vec<VolumeId> =
            self.config.borrow().volumes.iter().filter(|v| v.deleting).map(|v| v.id).collect();
        for id in deleting {
            self.io.mark(Mark::DeleteResumed);
            let _ = self.finish_delete(id).await;
        }
        self.use_spares().await;
        if self.md.is_some() {
            self.io.spawn(Rc::clone(self).run_rest());
        }
    }

    /// Adds an event for each member that was missing when the pool was opened and has not come back. A member becomes *missing*
    /// at an opening only, so there is one event for each.
    fn tell_missing(&self) {
        let missing: Vec<usize> = {
            let config = self.config.borrow();
            let missing = config.members.iter().enumerate().filter(|(_, m)| m.state == MemberState::Missing);
            missing.map(|(member, _)| member).collect()
        };
        let told = missing.into_iter().filter(|_| !mutation::on(Mutation::UntoldMissing));
        told.filter_map(|member| self.member_event(member, MemberChange::Missing))
            .for_each(|event| self.note(event));
    }

    /// Has members read again that were away, as far as the tables say that they are up to date.
    async fn read_returned(&self, found: &Found) {
        for &(member, device) in &found.returned {
            let _ = self.activate(usize::from(member.0), device, |_| ()).await;
        }
    }

    async fn take_event(self: Rc<Self>, event: ShardEvent) {
        match event {
            ShardEvent::MemberFailed { member, done, .. } => {
                // Without redundancy nothing is gained by doing without it: its requests fail, others may not.
                // Nor is anything lost by asking it again when nothing is written.
                if self.config.borrow().geometry.failures() > 0 && !self.mode.is_read_only() {
                    // When nothing is left to store the failure on, the pool as a whole has failed.
                    let _ = self.take_out(member, MemberState::Failed).await;
                }
                let _ = done.send(());
                self.use_spares().await;
            }
            ShardEvent::ManyReadErrors { member } if !self.mode.is_read_only() => {
                // Where it is needed, it stays: all else that it holds can be read.
                let _ = self.fail(usize::from(member.0)).await;
            }
            ShardEvent::ManyReadErrors { .. } => {}
            ShardEvent::Write { done } => {
                let _ = done.send(self.declare_write().await);
            }
            ShardEvent::SpaceWanted { done } => {
                self.sample_space().await;
                let _ = done.send(());
            }
            ShardEvent::Moved { shard, to, key } => self.note_moved(shard, to, key).await,
            ShardEvent::VolumeMoved { volume } => {
                let _ = self.finish_move(volume).await;
            }
            ShardEvent::Emptied => {
                let _ = self.finish_leaving().await;
            }
            ShardEvent::Hung(silence) => self.handle_hung_devices(&silence).await,
        }
    }

    /// Writes everything out, so that the next opening is quick, and may be that of another host: nothing is written to the members
    /// after it. Frontends should have stopped.
    ///
    /// # Errors
    /// When a shard cannot.
    pub async fn close(&self) -> Result<(), ControlError> {
        self.record_damage().await;
        self.ask_all(|done| ControlRequest::Close { done }).await?;
        // The shards may have to write once more for it, so writing does not end with `Close`.
        self.declare_rest(true).await?;
        self.ask_all(|done| ControlRequest::EndWriting { done }).await?;
        self.writing.0.close();
        self.leave_host().await?;
        // It stays under way, so that no other change is made.
        self.begin_change().await;
        Ok(())
    }

    /// Records that no host has the pool open any more.
    async fn leave_host(&self) -> Result<(), ControlError> {
        let is_recorded = self.config.borrow().open_on.is_some();
        if !is_recorded || self.mode.is_read_only() || self.failed.get() {
            return Ok(());
        }
        self.change(|config| {
            config.open_on = None;
            Ok(())
        })
        .await
    }
}
