//! The state that a world, its devices and its futures share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use sinew_core::coverage::MarkName;

use crate::core::Core;
use crate::executor::Executor;

/// What the world, its devices and its futures share.
pub(crate) struct Shared {
    pub(crate) core: RefCell<Core>,
    pub(crate) executor: Rc<Executor>,
    pub(crate) dropped_in_flight: Cell<bool>,
    /// How often each coverage mark was reached.
    pub(crate) reached: RefCell<BTreeMap<MarkName, u64>>,
    /// Marks reached in this step.
    pub(crate) reached_now: Cell<u64>,
}
