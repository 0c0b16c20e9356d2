//! Foreground priority: background work leaves spiking members alone, lets clients' requests go first where they wait, and
//! uses no more than a part of a drive's throughput while clients are active.
//!
//! FusionRAID (FAST '21, section 5.5) suspends conversion while clients move more than 40 MB/s on a drive. Here that is
//! the most that background work moves on a drive beside clients, and it waits for moments in which they do not. None of
//! this holds while the work is urgent, and each wait is bounded: work that never comes to an end would cost more later.

use std::future::Future;

use sinew_core::coverage::MarkName;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;

use crate::members::Members;

/// Bytes per second that background work moves on a drive while clients are active.
const DRIVE_BYTES_PER_SECOND: u64 = 40_000_000;

/// The longest time that one piece of work gives way, and the interval of its checks whether it may go on.
const GIVE_WAY_NS_MAX: u64 = 50_000_000;

const LOOK_NS: u64 = 500_000;

/// A shard whose background work yields to clients.
pub trait BackgroundWork<I: Io> {
    /// The coverage mark of work that found a member of its stripe in a spike.
    const AROUND: MarkName;

    /// The members that the work reads and writes.
    fn members(&self) -> &Members<I>;
    /// Whether clients use the shard, so that the rate of the work is limited.
    fn has_clients(&self) -> bool;
    /// Whether requests wait for what the work makes, or soon will, or the shard is being closed.
    fn is_urgent(&self) -> bool;

    /// Waits before background work reads or writes `bytes` bytes on each of these members.
    fn yield_to_clients(&self, on: &[MemberId], bytes: u64) -> impl Future<Output = ()> {
        async move {
            let members = self.members();
            if !members.may_be_late() {
                return;
            }
            let began = members.io.now();
            let due = if self.has_clients() {
                let ns = bytes * 1_000_000_000 / DRIVE_BYTES_PER_SECOND;
                on.iter().map(|&m| members.latency.pay(m, began, ns)).max().unwrap_or(began)
            } else {
                began
            };
            let end = began + GIVE_WAY_NS_MAX;
            let mut now = began;
            while now < end && !self.is_urgent() {
                let is_spiking = on.iter().any(|&m| members.is_active(m) && !members.responds(m));
                let is_awaited = self.has_clients() && on.iter().any(|&m| members.in_flight(m) > 0);
                if is_spiking {
                    if now == began {
                        members.io.mark(Self::AROUND);
                    }
                } else if !is_awaited && now >= due {
                    return;
                }
                members.io.sleep(LOOK_NS).await;
                now = members.io.now();
            }
        }
    }
}
