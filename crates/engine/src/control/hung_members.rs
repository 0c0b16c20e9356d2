//! Hung members: the decision whether the pool works without them, and their removal.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::control::member_states::Need;
use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::{DeviceId, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Signal, before};
use sinew_format::model::config::MemberState;
use sinew_members::io_timeout::HungDevices;

use crate::control::Control;
use crate::control::events::MemberChange;

impl<I: Io> Control<I> {
    /// Returns whether a member is out because it exceeded the I/O timeout.
    pub fn has_timed_out(&self, index: usize) -> bool {
        let is_out = self.config.borrow().members.get(index).is_some_and(|m| m.state == MemberState::Failed);
        let device = self.devices.borrow().get(index).copied().flatten();
        is_out && device.is_some_and(|device| self.timed_out.borrow().contains(&device))
    }

    /// Watches the control's own requests for the I/O timeout, until the control is dropped.
    pub(super) fn watch_io_timeouts(self: &Rc<Self>) {
        let (control, io_timeouts) = (Rc::downgrade(self), Rc::clone(&self.io_timeouts));
        let io = self.io.clone();
        self.io.spawn(async move {
            let handle = async |hung_devices| {
                if let Some(control) = control.upgrade() {
                    let io = control.io.clone();
                    io.spawn(async move { control.handle_hung_devices(&hung_devices).await });
                }
            };
            io_timeouts.run(io, handle).await;
        });
    }

    /// Takes hung devices out, if the pool works without all members that may be hung. It does not queue behind the other
    /// changes, since one of them may be waiting for a hung member.
    pub(super) async fn handle_hung_devices(&self, hung_devices: &HungDevices) {
        if self.handling_hung.replace(true) {
            return;
        }
        let doubtful: Vec<usize> = hung_devices.doubtful.iter().filter_map(|&d| self.member_on(d)).collect();
        let can_spare = mutation::on(Mutation::GiveUpNeeded) || self.can_spare_hung(doubtful).await;
        let hung: Vec<usize> = hung_devices.hung.iter().filter_map(|&d| self.member_on(d)).collect();
        let outgoing = self.outgoing.begin(if can_spare { &hung } else { &[] });
        for &device in &hung_devices.hung {
            match self.member_on(device) {
                // No member uses the device any more, but requests to it are still in flight.
                None => self.io.abandon(device),
                Some(index) if can_spare => self.take_out_hung(index, device).await,
                Some(_) => self.io.mark(Mark::SilentMemberNeeded),
            }
        }
        drop(outgoing);
        self.handling_hung.set(false);
        self.use_spares().await;
    }

    /// Whether the pool works without these members, and without those that have vanished unnoticed since they were last used.
    async fn can_spare_hung(&self, mut doubtful: Vec<usize>) -> bool {
        // A shard that does not answer has ended, and the pool with it.
        if self.need_of(&doubtful).await.unwrap_or(Need::Always) == Need::Always {
            return false;
        }
        let silent = match mutation::on(Mutation::AskNoOther) {
            true => Vec::new(),
            false => self.silent_among_others(&doubtful).await,
        };
        if silent.is_empty() {
            return true;
        }
        self.io.mark(Mark::OtherMemberSilent);
        doubtful.extend(silent);
        self.need_of(&doubtful).await.unwrap_or(Need::Always) != Need::Always
    }

    /// Members other than these that do not read a block within a tick of the watchdog.
    async fn silent_among_others(&self, doubtful: &[usize]) -> Vec<usize> {
        let others = self.devices_in_use().into_iter().filter(|(member, _)| !doubtful.contains(member));
        let silent: Rc<RefCell<Vec<usize>>> = Rc::default();
        let (asked, ended) = (Rc::new(Cell::new(0)), Rc::new(Signal::default()));
        for (member, device) in others {
            silent.borrow_mut().push(member);
            asked.set(asked.get() + 1);
            let (io, io_timeouts) = (self.io.clone(), Rc::clone(&self.io_timeouts));
            let (silent, asked, ended) = (Rc::clone(&silent), Rc::clone(&asked), Rc::clone(&ended));
            // Requests are not cancelled, so one that is late ends later.
            self.io.spawn(async move {
                let pending = io_timeouts.begin(device);
                if io.read(device, 0, Buf::zeroed(BLOCK_BYTES)).await.1.is_ok() {
                    silent.borrow_mut().retain(|&other| other != member);
                }
                io_timeouts.end(pending);
                asked.set(asked.get() - 1);
                ended.notify();
            });
        }
        let limit_ns = self.io_timeouts.tick_ns().unwrap_or(0);
        let all = ended.wait(|| (asked.get() == 0).then_some(()));
        before(all, self.io.sleep(limit_ns)).await;
        silent.take()
    }

    async fn take_out_hung(&self, index: usize, device: DeviceId) {
        // Ends all requests to it, also the write of the next configuration.
        self.io.abandon(device);
        if self.is_open.get() {
            self.io.mark(Mark::MemberGivenUp);
            self.timed_out.borrow_mut().insert(device);
            self.member_event(index, MemberChange::Hung).into_iter().for_each(|event| self.note(event));
            let _ = self.take_out(MemberId(index as u8), MemberState::Failed).await;
        } else {
            // Recovery sees errors of the device, and the pool opens without it.
            self.io.mark(Mark::OpeningGivenUp);
        }
    }
}
