//! The place of a member in the pool: in a mapped pool its number, unless it has left; in an array a spare may have taken it.

use std::collections::BTreeMap;

use sinew_core::io::DeviceId;
use sinew_format::model::config::{Config, MemberState};

use crate::device::DiscardReads;
use crate::handle::Device;
use crate::host::OpenPool;
use crate::torture::failure::{Kind, Wrong};
use crate::torture::{elastic_stripes, stripes};

use super::state::{Run, path_of};

impl Run {
    /// A member's number in the pool; `None` when a spare has taken its place.
    pub(super) fn place_of(&self, pool: &OpenPool, member: usize) -> Option<usize> {
        if self.work.plan.array.is_none() {
            return Some(member).filter(|&place| !self.has_left(&pool.control.config(), place));
        }
        let path = path_of(self.device(member).id());
        let config = pool.control.config();
        config.members.iter().position(|m| m.path == path && m.state != MemberState::Removed)
    }

    /// Whether the removal of a member has ended; it does not come back.
    pub(super) fn has_left(&self, config: &Config, place: usize) -> bool {
        let member = config.members.get(place);
        member.is_some_and(|m| m.state == MemberState::Removed) && self.left.borrow().contains(&place)
    }

    /// Devices that were lost before they became members do not count as lost.
    pub(super) fn forget_never_joined(&mut self) {
        let members = self.devices.borrow().len();
        self.lost.retain(|&member| member < members);
    }

    /// Finds the device of each member. The end of an opening may have interrupted a replacement; the pool knows which of the
    /// two devices is the member.
    pub(super) fn find_devices(&self, pool: &OpenPool) {
        let config = pool.control.config();
        let paths: BTreeMap<String, DeviceId> =
            self.world.devices().into_iter().map(|id| (path_of(id), id)).collect();
        let mut devices = self.devices.borrow_mut();
        if self.work.plan.array.is_none() {
            for (device, member) in devices.iter_mut().zip(&config.members) {
                *device = paths.get(&member.path).copied().unwrap_or(*device);
            }
            // The end may have interrupted the answer that a device has become a member.
            let known = devices.len();
            devices.extend(config.members.iter().skip(known).map(|member| paths[&member.path]));
            self.left.borrow_mut().retain(|&place| config.members[place].state != MemberState::Active);
            return;
        }
        // A device that is no member any more has been replaced by a device of the pool that no member here has yet.
        let known = config.members.iter().filter_map(|m| paths.get(&m.path)).copied();
        let mut new: Vec<DeviceId> = known.clone().filter(|id| !devices.contains(id)).collect();
        let known: Vec<DeviceId> = known.collect();
        for device in devices.iter_mut().filter(|device| !known.contains(device)) {
            *device = new.pop().unwrap_or(*device);
        }
    }

    /// Checks the stripes of an array on its devices. Returns the chunks of an elastic one that no stripe uses, as device and
    /// offset.
    pub(super) fn check_stripes(&self, pool: &OpenPool) -> Result<Vec<(Device, u64)>, Wrong> {
        let config = pool.control.config();
        let Some(array) = config.geometry.array() else { return Ok(Vec::new()) };
        let paths: BTreeMap<String, DeviceId> =
            self.world.devices().into_iter().map(|id| (path_of(id), id)).collect();
        let members = config.members.iter().take(array.members());
        let devices: Vec<_> = members.map(|member| self.world.device(paths[&member.path])).collect();
        let checked = match array.elastic {
            Some(_) => elastic_stripes::check(array, &devices, self.frees()),
            None => stripes::check(array, &devices).map(|()| Vec::new()),
        };
        let unused = checked.map_err(|what| Kind::WrongData.of(what))?;
        Ok(unused.into_iter().map(|(device, offset)| (devices[device].clone(), offset)).collect())
    }

    /// Whether a discarded block reads as zeros and takes no space.
    pub(super) fn frees(&self) -> bool {
        self.work.plan.discard_reads() == DiscardReads::Zeros
    }
}
