//! The job that grows an array.

use std::rc::Rc;

use sinew_core::io::Io;

use crate::reshape::Reshape;

impl<I: Io> Reshape<I> {
    /// Moves whenever there is something to move, for ever.
    pub(crate) async fn run(self: Rc<Self>) {
        self.wake.kick();
        loop {
            self.wake.kicked().await;
            if self.state.layout().changing().is_some() {
                self.change_rows().await;
            } else {
                self.move_all().await;
            }
        }
    }
}
