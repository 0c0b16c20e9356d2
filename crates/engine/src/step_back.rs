//! Background work steps back: it leaves members in a spike alone, lets clients' requests go first where they wait, and
//! takes no more than a part of what a drive can do while clients are at work.
//!
//! FusionRAID (FAST '21, section 5.5) suspends conversion while clients move more than 40 MB/s on a drive. Here that is
//! the most that background work moves on a drive beside clients, and it waits for moments in which they do not. Nothing
//! of this holds while somebody waits for the room that the work makes, and none of it for long: work that never comes to
//! an end would cost more later.

use crate::addr::StripeId;
use crate::io::Io;
use crate::mapped::MappedShard;
use crate::paths::Path;

/// Bytes per second that background work moves on a drive while clients are at work.
const DRIVE_BYTES_PER_SECOND: u64 = 40_000_000;
/// How long one piece of work gives way at most, and how often it looks whether it may go on.
const GIVE_WAY_NS_MAX: u64 = 50_000_000;
const LOOK_NS: u64 = 500_000;

impl<I: Io> MappedShard<I> {
    /// Called before background work reads or writes so many bytes on each member of a stripe.
    pub(crate) async fn step_back(&self, stripe: StripeId, bytes: u64) {
        if !self.members.may_be_late() {
            return;
        }
        let members: Vec<_> = {
            let tables = self.tables.borrow();
            tables.homes(stripe).iter().flatten().map(|home| home.member).collect()
        };
        let began = self.io.now();
        let due = if self.volumes_in_use() > 0 {
            let ns = bytes * 1_000_000_000 / DRIVE_BYTES_PER_SECOND;
            members.iter().map(|&m| self.members.responses.pay(m, began, ns)).max().unwrap_or(began)
        } else {
            began
        };
        let end = began + GIVE_WAY_NS_MAX;
        let mut now = began;
        while now < end && !self.is_pressed() {
            let spiking = members.iter().any(|&m| self.members.is_active(m) && !self.members.responds(m));
            let awaited = self.volumes_in_use() > 0 && members.iter().any(|&m| self.members.in_flight(m) > 0);
            if spiking {
                if now == began {
                    self.io.reach(Path::BackgroundAround);
                }
            } else if !awaited && now >= due {
                return;
            }
            self.io.sleep(LOOK_NS).await;
            now = self.io.now();
        }
    }

    /// Whether somebody waits for what background work makes.
    fn is_pressed(&self) -> bool {
        self.waiting_for_room.get() > 0
            || self.closing.get()
            || self.space.borrow().free_chunks() < self.low_water()
    }
}
