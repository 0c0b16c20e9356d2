//! Growing and shrinking of mapped pools as a setting.

use super::setting::choices;

choices! {
    /// What operators do to the number of members while clients work.
    Growth {
        /// A device is added.
        Add = "add",
        /// A member is removed.
        Remove = "remove",
        /// A member that is leaving is told to stay.
        Keep = "keep",
    }
}
