//! Estimating the space that a stripe takes, before it is decided whether it changes its form.

use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_format::model::array_shard_layout::Run;

use crate::stripe::Stripes;
use crate::stripe::compressibility::Estimate;
use crate::stripe::form::parity_of;

impl<I: Io> Stripes<I> {
    /// The compressibility of what was looked at lately.
    pub(crate) fn mean_compressibility(&self) -> Estimate {
        self.compressibility.sum()
    }

    /// Estimates the space of a stripe from one block of each column; `None` if they have only zeros or cannot be read.
    pub(crate) async fn estimate_space(self: &Rc<Self>, stripe: u64) -> Option<Estimate> {
        let layout = self.state.layout();
        let offset = (self.state.io().random() % u64::from(layout.chunk_blocks)) as u32;
        let column =
            |column: usize| Run { stripe, slot: column as u32 * layout.chunk_blocks + offset, blocks: 1 };
        let reads = join_all((0..layout.columns(stripe)).map(|index| self.read_run(column(index)))).await;
        let columns: Vec<Buf> = reads.into_iter().collect::<Result<_, _>>().ok()?;
        let estimate = Estimate::of(&columns, &parity_of(&columns, layout.m));
        self.compressibility.add(estimate);
        (estimate.data_stored > 0).then_some(estimate)
    }
}
