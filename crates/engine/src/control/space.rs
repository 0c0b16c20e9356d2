//! Asking for the physical space of the members, aside of all requests.
//!
//! The daemon asks once a second. A device that does not answer keeps its last figures, and no request waits for it.

use std::rc::Rc;

use sinew_core::io::{DeviceId, Io};
use sinew_core::physical::{Domain, Physical, PhysicalSource};
use sinew_core::sync::before;
use sinew_members::message::ControlRequest;
use sinew_members::status::ShardStatus;

use crate::control::error::ControlError;
use crate::control::physical_space::PoolSpace;
use crate::control::store::Control;
use crate::pool::{self, Candidate};

/// The time that devices have to answer.
const ANSWER_NS: u64 = 1_000_000_000;

/// A device, and the limit that an operator has set for it, with the bytes of it that the pool uses.
#[derive(Clone, Copy)]
struct Limited {
    device: DeviceId,
    limit: u64,
    in_use: u64,
}

impl<I: Io> Control<I> {
    /// The physical space of the members, as it was when it was asked for.
    pub fn space(&self) -> PoolSpace {
        let config = self.config.borrow();
        let mut devices = vec![None; config.members.len()];
        self.devices_in_use().into_iter().for_each(|(member, device)| devices[member] = Some(device));
        let bytes = config.members.iter().map(|member| member.bytes);
        self.space.watch.borrow().report(&devices.into_iter().zip(bytes).collect::<Vec<_>>())
    }

    /// Asks the members for their physical space; [`Control::space`] has the answers.
    pub fn refresh_space(self: &Rc<Self>) {
        let control = Rc::clone(self);
        self.io.spawn(async move { control.sample_space().await });
    }

    /// As [`Control::refresh_space`]; resolves when all members have answered that do so in time, and the shards know their
    /// credit.
    pub async fn sample_space(&self) {
        let samples = &self.space;
        // A round under way may have asked too early.
        let wanted = samples.begun.get() + 1;
        while samples.ended.get() < wanted {
            if samples.is_running.replace(true) {
                samples.round_ended.wait_once().await;
                continue;
            }
            samples.begun.set(samples.begun.get() + 1);
            self.ask_members().await;
            samples.ended.set(samples.begun.get());
            samples.is_running.set(false);
            samples.round_ended.notify();
        }
    }

    /// Asks the members, and deals the space that is limited to the shards.
    async fn ask_members(&self) {
        let mut limited = self.limited_devices().await;
        let shards = self.shards.len();
        let was_limited = !self.space().allotments(shards).is_empty();
        let mut is_marked = was_limited;
        if was_limited {
            let _ = self.ask_all(|done| ControlRequest::SpaceMark { done }).await;
        }
        self.ask_devices(&limited).await;
        let mut allotments = self.space().allotments(shards);
        if !allotments.is_empty() && !is_marked {
            // The shards have counted from the next moment on.
            is_marked = self.ask_all(|done| ControlRequest::SpaceMark { done }).await.is_ok();
            limited = self.limited_devices().await;
            self.ask_devices(&limited).await;
            allotments = self.space().allotments(shards);
        }
        self.space.watch.borrow_mut().extend_trend(self.io.now());
        if is_marked {
            // Writes that wait for the figures must not meet the former ones.
            let deal = |done| ControlRequest::SpaceAllotments { allotments: allotments.clone(), done };
            let _ = self.ask_all(deal).await;
        }
    }

    /// Asks devices, and waits for their answers for a while.
    async fn ask_devices(&self, limited: &[Limited]) {
        let mut asked = Vec::new();
        for &limited in limited {
            let device = limited.device;
            if !self.space.watch.borrow_mut().asked.insert(device) {
                continue;
            }
            asked.push(device);
            let (io, samples) = (self.io.clone(), Rc::clone(&self.space));
            self.io.spawn(async move {
                let told = io.physical(device).await;
                samples.watch.borrow_mut().note(device, within_limit(told, limited));
                samples.answered.notify();
            });
        }
        let is_pending = |device: &DeviceId| self.space.watch.borrow().asked.contains(device);
        let all = self.space.answered.wait(|| (!asked.iter().any(is_pending)).then_some(()));
        before(all, self.io.sleep(ANSWER_NS)).await;
    }

    async fn limited_devices(&self) -> Vec<Limited> {
        let config = self.config();
        let is_limited = config.members.iter().any(|member| member.physical > 0);
        let mut status = ShardStatus::default();
        if is_limited {
            let told = self.ask_for(ControlRequest::Vitals).await.unwrap_or_default();
            told.iter().for_each(|shard| status.add(shard));
        }
        let of = |(member, device): (usize, DeviceId)| {
            let unused = status.member_unused_bytes.get(member).copied().unwrap_or(0);
            let in_use = config.end_bytes(member).saturating_sub(unused);
            Limited { device, limit: config.members[member].physical, in_use }
        };
        self.devices_in_use().into_iter().map(of).collect()
    }

    /// Limits the physical space of a member; 0 is no other limit than that of the device.
    ///
    /// # Errors
    /// When there is no such member, its device cannot tell its use and takes no discards, or the configuration cannot be
    /// stored.
    pub async fn set_physical(&self, index: usize, physical: u64) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        self.refuse_md()?;
        self.member(index)?;
        let device = self.devices.borrow()[index];
        if physical > 0
            && let Some(device) = device
        {
            let path = self.config.borrow().members[index].path.clone();
            pool::require_known_use(&self.io, &Candidate { device, path }).await?;
        }
        let before = self.config.borrow().members[index].physical;
        self.change(|config| {
            config.members[index].physical = physical;
            Ok(())
        })
        .await?;
        if physical != before {
            let limit = if physical == 0 { "no limit".to_owned() } else { format!("{physical} bytes") };
            let value = format!("{limit} on member {index}");
            self.note_setting("physical-space", value);
        }
        self.sample_space().await;
        Ok(())
    }
}

/// The physical space of a device within the limit that an operator has set. A device that does not tell its use counts with
/// what the pool uses of it.
fn within_limit(told: Option<Physical>, limited: Limited) -> Option<Physical> {
    let Limited { device, limit, in_use } = limited;
    let domain = Domain(u64::MAX - u64::from(device.0));
    let counted = Physical { used: in_use, free: None, domain, source: PhysicalSource::Given };
    match limit {
        0 => told,
        _ => Some(told.unwrap_or(counted).limited_to(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_what_the_pool_uses_of_a_device_that_does_not_tell() {
        let limited = Limited { device: DeviceId(3), limit: 100, in_use: 40 };
        let counted = within_limit(None, limited).expect("a limit");
        assert_eq!((counted.used, counted.free, counted.source), (40, Some(60), PhysicalSource::Given));
        let told = |free| Physical { used: 70, free: Some(free), ..counted };
        assert_eq!(within_limit(Some(told(500)), limited), Some(told(30)));
        assert_eq!(within_limit(None, Limited { limit: 0, ..limited }), None);
    }
}
