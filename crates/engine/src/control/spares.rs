//! Spares of an array take the places of members that are out.

use crate::marks::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_format::model::config::{MemberConfig, MemberState};
use sinew_members::message::ControlRequest;

use crate::control::{Control, ControlError};

impl<I: Io> Control<I> {
    /// Has spares take the places of members that failed or have not come back.
    pub(super) async fn use_spares(&self) {
        if self.mode.is_read_only() {
            return;
        }
        let _turn = self.turn().await;
        loop {
            let (index, spare) = {
                let (config, devices) = (self.config.borrow(), self.devices.borrow());
                let gone = |m: &MemberConfig| matches!(m.state, MemberState::Failed | MemberState::Missing);
                let is_spare =
                    |i: &usize| config.members[*i].state == MemberState::Spare && devices[*i].is_some();
                let places = config.geometry.members_placed().unwrap_or(0);
                let index = config.members[..places].iter().position(gone);
                match (index, (0..config.members.len()).find(is_spare)) {
                    (Some(index), Some(spare)) => (index, spare),
                    _ => return,
                }
            };
            if self.use_spare(index, spare).await.is_err() {
                return;
            }
        }
    }

    /// The member and the spare change places; what the member held is rebuilt onto the spare.
    async fn use_spare(&self, index: usize, spare: usize) -> Result<(), ControlError> {
        let id = MemberId(index as u8);
        self.ask_all(|done| ControlRequest::StaleMember { member: id, done }).await?;
        let device = self.devices.borrow()[spare];
        let mut taken = false;
        self.change(|config| {
            taken = config.members[spare].state == MemberState::Spare;
            if taken {
                config.members.swap(index, spare);
                config.members[index].state = MemberState::Active;
                config.members[index].out_epoch = 0;
                config.members[spare].state = MemberState::Removed;
                self.devices.borrow_mut()[index] = device;
                self.devices.borrow_mut()[spare] = None;
            }
            Ok(())
        })
        .await?;
        if taken {
            self.io.mark(Mark::SpareTaken);
            self.tell_member(index).await;
        }
        Ok(())
    }
}
