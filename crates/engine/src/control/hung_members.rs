//! Members that answer nothing any more: whether the pool can do without them, and how they go out.

use std::future::Future;
use std::rc::Rc;

use sinew_core::coverage::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::{DeviceId, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::config::MemberState;
use sinew_members::io_timeout::HungDevices;
use sinew_members::message::ControlRequest;

use crate::control::{Control, ControlError};

impl<I: Io> Control<I> {
    /// Gives members up that have not answered a request for so long, or never does. Those that the pool cannot do without
    /// are waited for all the same.
    pub async fn give_up_after(&self, ns: Option<u64>) {
        self.vigil.set(ns);
        for shard in &self.shards {
            let _ = shard.send(ControlRequest::IoTimeout(ns)).await;
        }
    }

    /// After how long a member that does not answer is given up.
    pub fn gives_up_after(&self) -> Option<u64> {
        self.vigil.gives_up_after()
    }

    /// Whether a member is out because it did not answer.
    pub fn was_given_up(&self, index: usize) -> bool {
        let is_out = self.config.borrow().members.get(index).is_some_and(|m| m.state == MemberState::Failed);
        let device = self.devices.borrow().get(index).copied().flatten();
        is_out && device.is_some_and(|device| self.given_up.borrow().contains(&device))
    }

    /// Counts requests of the control's own among those that are waited for.
    pub(crate) async fn watched<T>(&self, device: DeviceId, requests: impl Future<Output = T>) -> T {
        let mark = self.vigil.begin(device);
        let result = requests.await;
        self.vigil.end(mark);
        result
    }

    /// Looks for the control's own requests that are not answered, for ever.
    pub(crate) fn keep_vigil(self: &Rc<Self>) {
        let (control, vigil) = (Rc::downgrade(self), Rc::clone(&self.vigil));
        let io = self.io.clone();
        self.io.spawn(async move {
            let hear = async |silence| {
                if let Some(control) = control.upgrade() {
                    let io = control.io.clone();
                    io.spawn(async move { control.hear_silence(&silence).await });
                }
            };
            vigil.keep(io, hear).await;
        });
    }

    /// Gives up devices that are silent, if the pool can do without all members from which nothing is heard. It does not wait
    /// for its turn among the orders: one of them may be waiting for such a member.
    pub(crate) async fn hear_silence(&self, silence: &HungDevices) {
        if self.giving_up.replace(true) {
            return;
        }
        let doubtful: Vec<usize> = silence.doubtful.iter().filter_map(|&d| self.member_on(d)).collect();
        // A shard that does not tell has gone, and the pool with it.
        let can_spare =
            mutation::on(Mutation::GiveUpNeeded) || self.can_spare(&doubtful).await.unwrap_or(false);
        for &device in &silence.silent {
            match self.member_on(device) {
                // It takes part no more, though somebody waits for it still.
                None => self.io.abandon(device),
                Some(index) if can_spare => self.give_up(index, device).await,
                Some(_) => self.io.mark(Mark::SilentMemberNeeded),
            }
        }
        self.giving_up.set(false);
        self.use_spares().await;
    }

    /// The member that a device is, as long as it takes part.
    pub(crate) fn member_on(&self, device: DeviceId) -> Option<usize> {
        self.devices_in_use().into_iter().find(|&(_, used)| used == device).map(|(index, _)| index)
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

    /// Whether everything stored can be read, and the pool go on, without these members.
    pub(crate) async fn can_spare(&self, members: &[usize]) -> Result<bool, ControlError> {
        let mut lost = self.config.borrow().out();
        members.iter().for_each(|&member| lost[member] = true);
        if !self.config.borrow().survives(&lost) {
            return Ok(false);
        }
        // Shards tell nothing before they are recovered.
        if !self.is_open.get() {
            return Ok(true);
        }
        let status = self.status().await?;
        // Others may have gone out meanwhile.
        let config = self.config.borrow();
        lost.iter_mut().zip(config.out()).for_each(|(lost, out)| *lost |= out);
        // A member of an array with stale chunks is no help to the others; in a mapped pool the stripes themselves say what
        // they can lose.
        if config.shape.members_placed().is_some() {
            let lagging = lost.iter_mut().zip(&status.member_chunks_stale);
            lagging.for_each(|(lost, &stale)| *lost |= stale > 0);
        }
        let stripes_have_lost = config.shape.mapped().is_some() && status.stripes_at_risk > 0;
        Ok(!stripes_have_lost && config.survives(&lost))
    }
}
