//! Growing and shrinking of mapped pools as a setting.

use super::setting::choices;

choices! {
    /// What operators do to the number of members, and to their shares, while clients work.
    Growth {
        /// A device is added.
        Add = "add",
        /// A member is removed.
        Remove = "remove",
        /// A member that is leaving is told to stay.
        Keep = "keep",
        /// The weight of a member is changed.
        Weigh = "weigh",
    }
}
