//! Physical space that several devices share.

use sinew_core::io::DeviceId;

use crate::device::DeviceState;
use crate::thin::Thin;

/// Counts what the other devices of the domain of a device leave of its space.
pub(crate) fn count_beside(devices: &mut [DeviceState], id: DeviceId, now: u64) {
    let domain_of = |device: &DeviceState| device.thin.as_ref().and_then(Thin::domain);
    let Some(domain) = devices.get(id.0 as usize).and_then(domain_of) else { return };
    let others = devices.iter().filter(|other| other.id != id && domain_of(other) == Some(domain));
    let left = others.filter_map(|other| {
        let own = other.thin.as_ref()?.own(now);
        Some(own as i64 - other.table.stored_bytes() as i64)
    });
    let beside = left.sum();
    if let Some(thin) = &mut devices[id.0 as usize].thin {
        thin.set_beside(beside);
    }
}
