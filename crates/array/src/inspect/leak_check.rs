//! The leak check: resources that an idle shard must not hold.

use sinew_core::io::Io;

use crate::inspect::Inspected;

/// Resources held without a reason, in words. The shard has to be idle and flushed.
pub(crate) fn leaks<I: Io>(shard: &Inspected<'_, I>) -> Vec<String> {
    let counts = [
        ("stripes locked", shard.stripes.locked()),
        ("blocks that are not in their places", shard.stripes.unplaced_blocks()),
        ("stripes with writes that wait", shard.requests.queued_stripes()),
        ("entries to be logged", shard.journal.log().queued()),
        ("writes of the log", shard.journal.log().writes_under_way()),
        ("regions in use", shard.bitmap.regions().in_use()),
        ("stripes to be tidied", shard.forms.untidy()),
        ("untidy regions", shard.bitmap.regions().untidy().len() as usize),
        ("flushes", usize::from(shard.journal.is_flushing())),
    ];
    let index = shard.state.layout().index;
    let held = counts.into_iter().filter(|(_, count)| *count > 0);
    held.map(|(what, count)| format!("shard {index}: {count} {what}")).collect()
}
