//! Inspection: the status of a shard, and the leak check.

pub(crate) mod leak_check;
pub(crate) mod status;

use crate::background::govern::Governing;
use crate::background::rebuild::Rebuild;
use crate::bitmap::Bitmap;
use crate::forms::Forms;
use crate::journal::Journal;
use crate::request::Requests;
use crate::reshape::Reshape;
use crate::state::ShardState;
use crate::stripe::Stripes;

/// The rooms of a shard that have something to report.
pub(crate) struct Inspected<'a, I> {
    pub(crate) state: &'a ShardState<I>,
    pub(crate) bitmap: &'a Bitmap<I>,
    pub(crate) forms: &'a Forms<I>,
    pub(crate) journal: &'a Journal<I>,
    pub(crate) stripes: &'a Stripes<I>,
    pub(crate) requests: &'a Requests<I>,
    pub(crate) governing: &'a Governing<I>,
    pub(crate) rebuild: &'a Rebuild<I>,
    pub(crate) reshape: &'a Reshape<I>,
}
