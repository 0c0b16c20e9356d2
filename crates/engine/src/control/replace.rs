//! Replacement of a member: by a device given on request, by a spare, or, in a mapped pool, by the free space of the others.

use crate::marks::Mark;
use crate::pool::{self, Candidate};
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_format::model::config::{MemberConfig, MemberState};
use sinew_format::model::mapped_geometry::MemberLayout;
use sinew_members::message::ControlRequest;

use crate::control::{Control, ControlError};

impl<I: Io> Control<I> {
    /// Replaces an out member by an empty device, onto which everything is rebuilt; or, without one, has what it held
    /// rebuilt into the free space of the others. In an array, what replaces a member without a place is a new spare.
    ///
    /// # Errors
    /// When the member is not out, or the device cannot be used.
    pub async fn replace(
        &self,
        index: usize,
        new: Option<Candidate>,
        force: bool,
    ) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        self.refuse_md()?;
        let turn = self.turn().await;
        let state = self.member(index)?;
        let has_places = self.config.borrow().geometry.members_placed().is_some();
        let is_empty = state == MemberState::Removed && new.is_none();
        if matches!(state, MemberState::Active | MemberState::Spare | MemberState::Leaving) || is_empty {
            let hint = match state {
                MemberState::Leaving => "let it stay first (`sinew member remove --cancel`)",
                _ if is_empty => "there is nothing left to replace",
                _ => "take it offline first",
            };
            return Err(ControlError::MemberState { member: index, state: state.name(), hint });
        }
        let Some(candidate) = new else {
            if has_places {
                return Err(ControlError::NoEvacuation);
            }
            let g = self.config.borrow().mapped();
            self.check_width(index, (g.data_columns + g.parity_columns()).max(g.copies()))?;
            self.change(|config| {
                config.members[index].state = MemberState::Evacuating;
                Ok(())
            })
            .await?;
            self.tell_member(index).await;
            return Ok(());
        };
        self.refuse_in_use(&candidate)?;
        if !force {
            pool::refuse_used(&self.io, &candidate).await?;
        }
        let bytes = pool::device_bytes(&self.io, &candidate)?;
        // The new device is used as far as the old one reached: chunk numbers stay valid on it.
        let layout = self.check_replacement(index, bytes)?;
        let member = pool::new_member(&self.io, &candidate, bytes, layout);
        pool::wipe(&self.io, &candidate).await?;
        // Before the empty device counts, everything on it is known to be stale.
        let id = MemberId(index as u8);
        self.ask_all(|done| ControlRequest::StaleMember { member: id, done }).await?;
        self.io.mark(Mark::MemberReplaced);
        self.activate(index, candidate.device, |entry| *entry = member).await?;
        drop(turn);
        self.use_spares().await;
        Ok(())
    }

    /// Returns the layout of a device of `have` bytes that replaces a member: the layout of that member.
    fn check_replacement(&self, index: usize, have: u64) -> Result<MemberLayout, ControlError> {
        let config = self.config.borrow();
        let need = config.end_bytes(index);
        if have < need {
            Err(ControlError::TooSmall { have, need })
        } else {
            Ok(config.members[index].layout)
        }
    }

    /// Checks that at least `need` members are active without this one.
    pub(super) fn check_width(&self, index: usize, need: usize) -> Result<(), ControlError> {
        let config = self.config.borrow();
        let active = |(i, m): &(usize, &MemberConfig)| *i != index && m.state == MemberState::Active;
        let have = config.members.iter().enumerate().filter(active).count();
        if have < need {
            self.io.mark(Mark::EvacuationRefused);
            return Err(ControlError::TooFewLeft { have, need });
        }
        Ok(())
    }
}
