//! The state that a world, its devices and its futures share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::core::Core;
use crate::executor::Executor;

/// What the world, its devices and its futures share.
pub(crate) struct Shared {
    pub(crate) core: RefCell<Core>,
    pub(crate) executor: Rc<Executor>,
    pub(crate) dropped_in_flight: Cell<bool>,
    /// How often each path of the engine was taken, by its number.
    pub(crate) reached: Vec<Cell<u64>>,
    /// Paths taken in this step.
    pub(crate) reached_now: Cell<u64>,
}
