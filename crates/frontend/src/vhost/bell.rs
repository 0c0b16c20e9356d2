//! Events between a ring and its guest: descriptors that one side writes to, and the other waits for.

use std::future::Future;

/// One such descriptor, on the thread of the ring. A bell is used in one direction only.
pub trait Bell: 'static {
    /// Resolves once the bell was rung; true. False when it was silenced, or cannot ring any more. At most one task waits.
    fn rung(&self) -> impl Future<Output = bool>;

    /// Ends the wait, and every later one.
    fn silence(&self);

    /// Rings the bell of the other side. Never waits.
    fn ring(&self);
}
