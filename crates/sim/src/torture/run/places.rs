//! Which place of the pool a member has: in a mapped pool that of its number, unless it has left; in an array a spare may
//! take another member's.

use std::collections::BTreeMap;

use sinew_core::io::DeviceId;
use sinew_format::model::config::{Config, MemberState};

use crate::host::OpenPool;
use crate::torture::failure::{Kind, Wrong};
use crate::torture::stripes;

use super::{Run, path_of};

impl Run {
    /// A member's number in the pool; none when a spare has taken its place.
    pub(super) fn place_of(&self, pool: &OpenPool, member: usize) -> Option<usize> {
        if self.work.plan.array.is_none() {
            return Some(member).filter(|&place| !self.has_left(&pool.control.config(), place));
        }
        let path = path_of(self.device(member).id());
        let config = pool.control.config();
        config.members.iter().position(|m| m.path == path && m.state != MemberState::Removed)
    }

    /// Whether a member was removed to the end; it does not come back.
    pub(super) fn has_left(&self, config: &Config, place: usize) -> bool {
        let member = config.members.get(place);
        member.is_some_and(|m| m.state == MemberState::Removed) && self.left.borrow().contains(&place)
    }

    /// An end may have cut off the replacement of a member by another device; the pool knows which of both it is.
    pub(super) fn find_devices(&self, pool: &OpenPool) {
        let config = pool.control.config();
        let paths: BTreeMap<String, DeviceId> =
            self.world.devices().into_iter().map(|id| (path_of(id), id)).collect();
        let mut devices = self.devices.borrow_mut();
        if self.work.plan.array.is_none() {
            for (device, member) in devices.iter_mut().zip(&config.members) {
                *device = paths.get(&member.path).copied().unwrap_or(*device);
            }
            // An end may have cut off the answer that a device is a member.
            let known = devices.len();
            devices.extend(config.members.iter().skip(known).map(|member| paths[&member.path]));
            self.left.borrow_mut().retain(|&place| config.members[place].state != MemberState::Active);
            return;
        }
        // Whoever is not in the pool any more has been replaced by the one that nobody is yet.
        let known = config.members.iter().filter_map(|m| paths.get(&m.path)).copied();
        let mut new: Vec<DeviceId> = known.clone().filter(|id| !devices.contains(id)).collect();
        let known: Vec<DeviceId> = known.collect();
        for device in devices.iter_mut().filter(|device| !known.contains(device)) {
            *device = new.pop().unwrap_or(*device);
        }
    }

    /// Looks at an array's stripes on its devices.
    pub(super) fn check_stripes(&self, pool: &OpenPool) -> Result<(), Wrong> {
        let config = pool.control.config();
        let Some(array) = config.shape.array() else { return Ok(()) };
        let paths: BTreeMap<String, DeviceId> =
            self.world.devices().into_iter().map(|id| (path_of(id), id)).collect();
        let members = config.members.iter().take(array.members());
        let devices: Vec<_> = members.map(|member| self.world.device(paths[&member.path])).collect();
        stripes::check(array, &devices).map_err(|what| Kind::WrongData.of(what))
    }
}
