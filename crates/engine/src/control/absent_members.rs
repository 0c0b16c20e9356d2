//! Members that stay away: after a while, what they held is rebuilt into the free space of the others.

use sinew_core::io::Io;
use sinew_format::model::config::MemberState;

use crate::control::{Control, ControlError};

impl<I: Io> Control<I> {
    /// Sets after how many nanoseconds a member that failed or is missing counts as lost, so that what it held is rebuilt into
    /// the free space of the others; none for never. An opening begins the count anew. A member that an operator took offline
    /// is waited for without limit.
    ///
    /// # Errors
    /// When the pool is an array, which has a place for each member.
    pub fn set_rebuild_after(&self, after: Option<u64>) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        if self.config.borrow().geometry.members_placed().is_some() {
            return Err(ControlError::NoEvacuation);
        }
        if self.absent.rebuild_after.replace(after) != after {
            let value = after.map_or("never".to_owned(), |ns| format!("{} s", ns / 1_000_000_000));
            self.note_setting("rebuild-after", value);
        }
        Ok(())
    }

    /// The time after which an absent member counts as lost, in nanoseconds; none for never.
    pub fn rebuild_after(&self) -> Option<u64> {
        self.absent.rebuild_after.get()
    }

    /// Whether the free space of the others takes what any one member holds, should it stay away; none for arrays, whose members
    /// have their places.
    ///
    /// # Errors
    /// When a shard is gone.
    pub async fn has_room_to_rebuild(&self) -> Result<Option<bool>, ControlError> {
        let (active, needed) = {
            let config = self.config.borrow();
            let Some(geometry) = config.geometry.mapped() else { return Ok(None) };
            let members = config.members.iter().enumerate();
            let active = members.filter(|(_, member)| member.state == MemberState::Active);
            let active: Vec<usize> = active.map(|(index, _)| index).collect();
            (active, (geometry.data_columns + geometry.parity_columns()).max(geometry.copies()))
        };
        if active.len() <= needed {
            return Ok(Some(false));
        }
        Ok(Some(self.fits_without(&active).await?))
    }

    /// Begins to rebuild what members held that have been away for too long, one after the other. Without enough members, or
    /// room for it, nothing begins; the next look tries again.
    pub(super) async fn evacuate_absent(&self) {
        let due = {
            let config = self.config.borrow();
            let is_away = |state| matches!(state, MemberState::Failed | MemberState::Missing);
            let members = config.members.iter().enumerate();
            let away = members.filter(|(_, member)| is_away(member.state)).map(|(index, _)| index);
            self.absent.update(away, self.io.now())
        };
        for index in due {
            // The order under way may bring it back.
            if self.ordered.get() {
                return;
            }
            if self.fits_without(&[index]).await.is_ok_and(|fits| fits) {
                let _ = self.replace(index, None, false).await;
            }
        }
    }
}
