//! The look at the shards that gives events, and the events about members.

use sinew_core::io::Io;
use sinew_members::message::ControlRequest;
use sinew_members::status::{CounterValues, ShardStatus};

use crate::control::error::ControlError;
use crate::control::events::{Event, MemberChange};
use crate::control::store::Control;

impl<I: Io> Control<I> {
    /// Looks at the shards and adds the events since the last look; gives the counters.
    ///
    /// # Errors
    /// When a shard is gone.
    pub async fn observe(&self) -> Result<CounterValues, ControlError> {
        let mut status = ShardStatus::default();
        self.ask_for(ControlRequest::Vitals).await?.iter().for_each(|shard| status.add(shard));
        let mut seen = self.seen.borrow_mut();
        let mut events = seen.update(&status);
        for (member, change) in seen.update_slow(&status) {
            events.extend(self.member_event(member, change));
        }
        for (name, volume) in self.catalog.lock().iter() {
            events.extend(seen.update_volume(name, volume.refused_for_room(), volume.connections()));
        }
        drop(seen);
        events.into_iter().for_each(|event| self.note(event));
        Ok(status.counters)
    }

    /// The event that something became of a member; none if there is no such member.
    pub(super) fn member_event(&self, member: usize, change: MemberChange) -> Option<Event> {
        let path = self.config.borrow().members.get(member)?.path.clone();
        Some(Event::Member { member, path, change })
    }
}
