//! Members that appear after the wait for them has ended, and before the control socket is there.
//!
//! `sinew member rejoin` reports a member that appears to the control socket. Once that is there, one more look at the places of
//! the members finds those that were reported to nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::thread;

use sinew_core::ids::Uuid;
use sinew_format::model::config::MemberState;

use super::control_socket::bring_online;
use crate::out::complain;
use crate::pool::assembly::Assembly;
use crate::pool::host::Open;

/// Takes back the members that were missing when the wait ended and are there now. `known` is what was there then. To be called
/// once the control socket is bound.
pub(super) async fn take_back(open: Rc<Open>, assembly: Assembly, known: Vec<PathBuf>) {
    if missing(&open).is_empty() {
        return;
    }
    // On a thread of its own: a device that hangs delays no client.
    let (told, there) = async_channel::bounded(1);
    let look = move || drop(told.try_send(appeared(&assembly, &known)));
    if let Err(error) = thread::Builder::new().name("sinew-look".into()).spawn(look) {
        return complain!("warning: missing members are not looked for again: {error}");
    }
    for (path, uuid) in there.recv().await.unwrap_or_default() {
        // Meanwhile it may have been taken back by command, or under another of its names.
        let Some(&(member, _)) = missing(&open).iter().find(|(_, missing)| *missing == uuid) else {
            continue;
        };
        match bring_online(&open, member, path.clone()).await {
            Ok(()) => complain!("member {member} at {} came late and is back", path.display()),
            Err(error) => complain!("warning: member {member} at {} came late: {error:#}", path.display()),
        }
    }
}

/// The members that are missing, and their identities.
fn missing(open: &Open) -> Vec<(usize, Uuid)> {
    let members = open.control.config().members.into_iter().enumerate();
    members.filter(|(_, m)| m.state == MemberState::Missing).map(|(member, m)| (member, m.uuid)).collect()
}

/// The devices with members of the pool that are not among those known, and the identities of these members.
fn appeared(assembly: &Assembly, known: &[PathBuf]) -> Vec<(PathBuf, Uuid)> {
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let known: BTreeSet<PathBuf> = known.iter().map(real).collect();
    let there =
        assembly.there().unwrap_or_default().into_iter().filter(|(path, _)| !known.contains(&real(path)));
    there.map(|(path, s)| (path, s.config.members[usize::from(s.member)].uuid)).collect()
}
