//! Members that are taken offline, fail, and come back.

use crate::control::error::ControlError;
use crate::control::store::Control;
use crate::marks::Mark;
use crate::pool::{self, Candidate};
use sinew_core::ids::MemberId;
use sinew_core::io::{DeviceId, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::config::{MemberConfig, MemberState};
use sinew_format::model::mapped_geometry::MappedGeometry;
use sinew_members::message::ControlRequest;

/// Times that an order waits for copies of the tables, and its pause between two looks.
const LOOKS: u32 = 1000;
const LOOK_NS: u64 = 10_000_000;

/// Whether the pool needs some members.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    None,
    /// Tables, or blocks of the journal, are on fewer members than they should be, and are being copied: after a crash the pool could
    /// perhaps not be opened without these members.
    UntilCopied,
    /// Without them, not everything stored can be read, or the pool cannot go on.
    Always,
}

impl<I: Io> Control<I> {
    /// Takes a member offline, once the others hold the tables and the journal as well.
    ///
    /// # Errors
    /// When the pool cannot do without it, or not within some seconds.
    pub async fn offline(&self, index: usize) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        for _ in 0..LOOKS {
            let turn = self.turn().await;
            let state = self.member(index)?;
            if state != MemberState::Active {
                let hint = "only an active member can be taken offline";
                return Err(ControlError::MemberState { member: index, state: state.name(), hint });
            }
            match self.need_of(&[index]).await? {
                Need::Always => return Err(self.needed(index)),
                Need::UntilCopied if !mutation::on(Mutation::OfflineUncopied) => {}
                _ => return self.take_out(MemberId(index as u8), MemberState::Offline).await,
            }
            // Other changes go on meanwhile.
            drop(turn);
            self.io.mark(Mark::OfflineAwaitsCopies);
            self.io.sleep(LOOK_NS).await;
        }
        Err(ControlError::CopiesMissing(index))
    }

    fn needed(&self, index: usize) -> ControlError {
        self.io.mark(Mark::MemberNeeded);
        ControlError::Needed(index)
    }

    /// Takes out a member that the world says is broken, though it still answers.
    ///
    /// # Errors
    /// When the pool cannot do without it: it may still be good for something.
    pub async fn fail(&self, index: usize) -> Result<(), ControlError> {
        let turn = self.turn().await;
        match self.member(index)? {
            state if state.takes_part() && self.need_of(&[index]).await? == Need::Always => {
                return Err(self.needed(index));
            }
            state if state.takes_part() || state == MemberState::Spare => {
                self.take_out(MemberId(index as u8), MemberState::Failed).await?;
            }
            _ => {}
        }
        drop(turn);
        self.use_spares().await;
        Ok(())
    }

    /// Brings a member back; what it missed is rebuilt.
    ///
    /// # Errors
    /// When the device is not that member, or the member is not out.
    pub async fn online(&self, index: usize, candidate: Candidate) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        self.refuse_md()?;
        let turn = self.turn().await;
        let state = self.member(index)?;
        if !matches!(state, MemberState::Failed | MemberState::Offline | MemberState::Missing) {
            let hint = "only a failed, offline or missing member can be brought back";
            return Err(ControlError::MemberState { member: index, state: state.name(), hint });
        }
        self.refuse_in_use(&candidate)?;
        self.check_identity(index, &candidate).await?;
        // What was marked as missed must be known durably before the member counts again.
        self.ask_all(|done| ControlRequest::Flush { done }).await?;
        self.io.mark(Mark::MemberBack);
        self.activate(index, candidate.device, |member| member.path.clone_from(&candidate.path)).await?;
        drop(turn);
        self.use_spares().await;
        Ok(())
    }

    pub(super) async fn check_identity(
        &self,
        index: usize,
        candidate: &Candidate,
    ) -> Result<(), ControlError> {
        let wrong = |why: String| {
            self.io.mark(Mark::MemberRefused);
            ControlError::WrongDevice { path: candidate.path.clone(), member: index, why }
        };
        let superblock = pool::read_newest(&self.io, candidate.device, &self.slots)
            .await
            .map_err(|error| wrong(error.to_string()))?;
        let config = self.config.borrow();
        let theirs = &superblock.config;
        if theirs.pool != config.pool {
            return Err(wrong(format!("it belongs to pool {}", theirs.name)));
        }
        if theirs.members[usize::from(superblock.member)].uuid != config.members[index].uuid {
            return Err(wrong(format!("it is, or was, member {}", superblock.member)));
        }
        let mut active = (0..config.members.len()).filter(|&i| config.members[i].state.takes_part());
        let was_cut_off = active.any(|i| theirs.was_cut_off(&config, i));
        if !config.has_opening(theirs.last_opening(was_cut_off)) {
            return Err(wrong("it was used apart from the other members; replace it instead".to_owned()));
        }
        pool::too_small(&self.io, candidate.device, &config, index)
            .map_or(Ok(()), |why| Err(wrong(format!("it {why}"))))
    }

    /// Takes a device in as a member that is out.
    pub(super) async fn activate(
        &self,
        index: usize,
        device: DeviceId,
        edit: impl FnOnce(&mut MemberConfig),
    ) -> Result<(), ControlError> {
        self.change(|config| {
            let is_spare = config.geometry.members_placed().is_some_and(|places| index >= places);
            let member = &mut config.members[index];
            edit(member);
            member.state = if is_spare { MemberState::Spare } else { MemberState::Active };
            member.out_epoch = 0;
            self.devices.borrow_mut()[index] = Some(device);
            Ok(())
        })
        .await?;
        self.absent.forget(index);
        self.tell_member(index).await;
        Ok(())
    }

    /// Whether the pool needs these members.
    pub(super) async fn need_of(&self, members: &[usize]) -> Result<Need, ControlError> {
        if !self.config.borrow().survives(&self.lost_with(members)) {
            return Ok(Need::Always);
        }
        // Shards tell nothing before they are recovered.
        if !self.is_open.get() {
            return Ok(Need::None);
        }
        // Shards know of these that they are out.
        let mut told = self.config.borrow().out();
        self.outgoing.members().into_iter().for_each(|member| told[member] = false);
        let status = self.status().await?;
        // Others may have gone out meanwhile.
        let mut lost = self.lost_with(members);
        let config = self.config.borrow();
        // A member of an array with stale chunks is no help to the others; in a mapped pool the stripes themselves say what
        // they have lost.
        if config.geometry.members_placed().is_some() {
            let lagging = lost.iter_mut().zip(&status.member_chunks_stale);
            lagging.for_each(|(lost, &stale)| *lost |= stale > 0);
        }
        let losses = lost.iter().zip(told).filter(|&(&lost, told)| lost && !told).count() as u64;
        let are_too_many = |mapped: &MappedGeometry| status.losses_most + losses > mapped.failures() as u64;
        Ok(match !config.geometry.mapped().is_some_and(are_too_many) && config.survives(&lost) {
            false => Need::Always,
            true if status.metadata_unsettled > 0 => Need::UntilCopied,
            true => Need::None,
        })
    }

    /// Which members are out when these are, too, and those that changes under way take out.
    fn lost_with(&self, members: &[usize]) -> Vec<bool> {
        let mut lost = self.config.borrow().out();
        let outgoing = self.outgoing.members();
        let outgoing = outgoing.iter().filter(|_| !mutation::on(Mutation::CountOutgoing));
        members.iter().chain(outgoing).for_each(|&member| lost[member] = true);
        lost
    }
}
