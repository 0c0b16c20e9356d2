//! Notifications to the service manager (sd_notify(3)): readiness, a status line, the begin of the stop. Without the variable
//! NOTIFY_SOCKET nothing is sent.

use sd_notify::NotifyState;

use crate::out::complain;

/// Clients can connect.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The state in a line, for example while members are waited for.
pub(crate) fn status(status: &str) {
    tell(&[NotifyState::Status(status)]);
}

/// The server has begun to stop.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        complain!("cannot tell the service manager: {error}");
    }
}
