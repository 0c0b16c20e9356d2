//! Reports for people: on pools that were made, and on running ones from the answers of the control socket.

mod made;
mod pool_status;
mod reference;
pub(crate) mod top;

pub(crate) use made::{made, made_json};
pub(crate) use pool_status::{limits, print, print_members, print_volumes};
pub(crate) use reference::reference;
