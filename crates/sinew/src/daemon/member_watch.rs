//! Looks after the files and devices of a pool that is served: one that was deleted or cut short under the pool is no member
//! any more.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use sinew_core::io::{DeviceId, Io};
use sinew_uring::Harm;

use crate::out::complain;
use crate::pool::host::Open;

/// How often the members' files are looked at.
const WATCH_NS: u64 = 1_000_000_000;

/// Takes out members whose file was deleted or truncated under the pool, as long as it can do without them, and notes those
/// whose device nodes or files are gone.
pub(crate) async fn watch_members(open: Rc<Open>) {
    let asked: Rc<Asked> = Rc::default();
    loop {
        open.io.sleep(WATCH_NS).await;
        for (member, device) in open.control.devices_in_use() {
            // A device that hangs delays the check of no other.
            if asked.borrow_mut().insert(device) {
                open.io.spawn(watch_member(Rc::clone(&open), Rc::clone(&asked), member, device));
            }
        }
    }
}

/// Devices whose check is under way, and those that are out and need none.
type Asked = RefCell<BTreeSet<DeviceId>>;

/// Checks one member, once.
async fn watch_member(open: Rc<Open>, asked: Rc<Asked>, member: usize, device: DeviceId) {
    let harm = open.devices.harm(device).await;
    match harm {
        None => open.control.set_unnamed(device, false),
        Some(Harm::Unnamed) => open.control.set_unnamed(device, true),
        Some(harm) => {
            match open.control.fail(member).await {
                Ok(()) => complain!("warning: member {member} is out: {harm}"),
                Err(error) => {
                    open.control.set_unnamed(device, true);
                    complain!("warning: member {member}: {harm}; {error}");
                }
            }
            return;
        }
    }
    asked.borrow_mut().remove(&device);
}
