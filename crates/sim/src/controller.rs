//! A controller that several modelled devices share, between the host and their models.
//!
//! It takes one command at a time, and one link in each direction moves the data of all its devices. A command and the data
//! of a write pass before the model has the request, the data of a read after the model has it.

use crate::faults::OpKind;
use crate::op::Place;

/// The limits of a controller. Zero is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerLimits {
    /// Time that it takes for each command.
    pub command_ns: u64,
    /// Bytes per second of each direction.
    pub bytes_per_s: u64,
}

/// For how long the parts of a controller have worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerUsage {
    /// On commands.
    pub commands_ns: u64,
    /// On data to the devices.
    pub inward_ns: u64,
    /// On data from the devices.
    pub outward_ns: u64,
}

/// Serves one after the other, in the order of arrival.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    free_at: u64,
    worked_ns: u64,
}

impl Server {
    /// Takes `ns` as soon as possible from `now`; returns the end.
    fn serve(&mut self, now: u64, ns: u64) -> u64 {
        self.worked_ns += ns;
        self.free_at = self.free_at.max(now) + ns;
        self.free_at
    }
}

/// A controller at work.
pub(crate) struct Controller {
    limits: ControllerLimits,
    commands: Server,
    inward: Server,
    outward: Server,
}

impl Controller {
    pub(crate) fn new(limits: ControllerLimits) -> Controller {
        let server = Server::default();
        Controller { limits, commands: server, inward: server, outward: server }
    }

    /// When a request that arrives now reaches its device.
    pub(crate) fn take_in(&mut self, now: u64, place: Place) -> u64 {
        let taken = self.commands.serve(now, self.limits.command_ns);
        if place.kind != OpKind::Write {
            return taken;
        }
        self.inward.serve(taken, self.transfer_ns(place.bytes))
    }

    /// When the host has the answer to a request that its device ends now.
    pub(crate) fn send_back(&mut self, now: u64, place: Place) -> u64 {
        if place.kind != OpKind::Read {
            return now;
        }
        self.outward.serve(now, self.transfer_ns(place.bytes))
    }

    pub(crate) fn usage(&self) -> ControllerUsage {
        ControllerUsage {
            commands_ns: self.commands.worked_ns,
            inward_ns: self.inward.worked_ns,
            outward_ns: self.outward.worked_ns,
        }
    }

    fn transfer_ns(&self, bytes: u64) -> u64 {
        match self.limits.bytes_per_s {
            0 => 0,
            rate => (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64,
        }
    }
}
