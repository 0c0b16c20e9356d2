//! The events of a plan: failures of members, orders of operators, kinds of corruption, ends of an opening.

use super::setting::choices;

choices! {
    /// Failures of members and orders of operators while clients work.
    Trouble {
        /// A member goes away; its unflushed writes are kept, dropped or torn.
        Detach = "detach",
        /// An operator takes a member offline.
        Offline = "offline",
        /// An operator tries to take a member offline that the pool needs.
        OfflineNeeded = "offline_needed",
        /// Writes and flushes of a member begin to fail, or a die of an SSD fails.
        Fail = "fail",
        /// A member comes back as it was.
        Online = "online",
        /// An operator brings a member online with the device of another.
        Impostor = "impostor",
        /// An operator replaces a member by itself, with its content or without.
        Replace = "replace",
        /// An operator replaces a member by another device; the old one stays connected.
        Spare = "spare",
        /// An operator has a member's chunks rebuilt on the others.
        Evacuate = "evacuate",
        /// An operator begins a scrub, or stops it.
        Scrub = "scrub",
        /// A member becomes slow for a while, or answers nothing for a while.
        Slow = "slow",
        /// An operator sets or removes a limit of background work, or changes how latency spikes are detected.
        Throttle = "throttle",
        /// A member hangs: it answers nothing for longer than the I/O timeout, or nearly.
        HungDevices = "silence",
    }
}

choices! {
    /// Kinds of corruption by a member.
    Corruptor {
        /// Blocks become unreadable.
        Latent = "latent",
        /// Bits flip.
        Rot = "rot",
        /// Writes are acknowledged and lost.
        Lost = "lost",
        /// Writes go to the wrong place.
        MisdirectedWrite = "misdirected_write",
        /// Reads return the content of another place.
        MisdirectedRead = "misdirected_read",
        /// Reads fail.
        ReadError = "read_error",
    }
}

choices! {
    /// How an opening of the pool ends.
    Ending {
        /// The power fails.
        PowerLoss = "power",
        /// The process dies, the devices live on.
        ProcessDeath = "death",
        /// The pool is closed; then the power fails.
        Close = "close",
        /// All members vanish at once while the process lives on: every request must still be answered, if with an error.
        Blackout = "blackout",
    }
}
