//! What is served under which name.

use sinew_core::volume::Volume;

/// A volume under the name clients know it by.
#[derive(Clone, Debug)]
pub struct Export<V> {
    /// The canonical name.
    pub name: String,
    /// A line for people; may be empty.
    pub description: String,
    /// The volume itself.
    pub volume: V,
    /// Whether requests that change the volume are refused.
    pub read_only: bool,
}

/// Where a connection looks up volumes.
pub trait Exports: 'static {
    /// The volumes served.
    type Volume: Volume;

    /// The names of everything served, for clients that ask for a list. A name longer than 4096 bytes is left out of
    /// it: the protocol has no room for it.
    fn names(&self) -> Vec<String>;

    /// The volume of this exact name.
    fn open(&self, name: &str) -> Option<Export<Self::Volume>>;

    /// Which volume a client gets that names none: here the only one, if there is only one.
    fn default_name(&self) -> Option<String> {
        let mut names = self.names();
        if names.len() == 1 { names.pop() } else { None }
    }

    /// Hears that the client of this connection was refused, and why. `names` are those of the client's certificate, as far
    /// as it was believed.
    fn refused(&self, names: &[String], why: &str) {
        let _ = (names, why);
    }
}
