//! Members that answer nothing any more: whether the pool can do without them, and how they go out.

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::{DeviceId, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::config::MemberState;
use sinew_members::io_timeout::HungDevices;

use crate::control::Control;

impl<I: Io> Control<I> {
    /// Whether a member is out because it did not answer.
    pub fn was_given_up(&self, index: usize) -> bool {
        let is_out = self.config.borrow().members.get(index).is_some_and(|m| m.state == MemberState::Failed);
        let device = self.devices.borrow().get(index).copied().flatten();
        is_out && device.is_some_and(|device| self.given_up.borrow().contains(&device))
    }

    /// Looks for the control's own requests that are not answered, for ever.
    pub(super) fn keep_vigil(self: &Rc<Self>) {
        let (control, vigil) = (Rc::downgrade(self), Rc::clone(&self.vigil));
        let io = self.io.clone();
        self.io.spawn(async move {
            let hear = async |silence| {
                if let Some(control) = control.upgrade() {
                    let io = control.io.clone();
                    io.spawn(async move { control.hear_silence(&silence).await });
                }
            };
            vigil.run(io, hear).await;
        });
    }

    /// Gives up devices that are silent, if the pool can do without all members from which nothing is heard. It does not wait
    /// for its turn among the orders: one of them may be waiting for such a member.
    pub(super) async fn hear_silence(&self, silence: &HungDevices) {
        if self.giving_up.replace(true) {
            return;
        }
        let doubtful: Vec<usize> = silence.doubtful.iter().filter_map(|&d| self.member_on(d)).collect();
        // A shard that does not tell has gone, and the pool with it.
        let can_spare =
            mutation::on(Mutation::GiveUpNeeded) || self.can_spare(&doubtful).await.unwrap_or(false);
        for &device in &silence.hung {
            match self.member_on(device) {
                // No member uses the device any more, but requests to it are still in flight.
                None => self.io.abandon(device),
                Some(index) if can_spare => self.give_up(index, device).await,
                Some(_) => self.io.mark(Mark::SilentMemberNeeded),
            }
        }
        self.giving_up.set(false);
        self.use_spares().await;
    }

    async fn give_up(&self, index: usize, device: DeviceId) {
        // Ends all that waits for it: writing the next configuration to it, too.
        self.io.abandon(device);
        if self.is_open.get() {
            self.io.mark(Mark::MemberGivenUp);
            self.given_up.borrow_mut().insert(device);
            let _ = self.take_out(MemberId(index as u8), MemberState::Failed).await;
        } else {
            // Recovery finds it gone, and the pool is opened without it.
            self.io.mark(Mark::OpeningGivenUp);
        }
    }
}
