//! Released chunks: what the chunks of a stripe hold after a record that released some of them is not known.

use std::collections::BTreeMap;

use sinew_core::ids::{Lsn, StripeId};
use sinew_format::journal_block::{JournalHeader, Record};

/// The last block of the journal that releases a chunk of each stripe.
pub(super) struct ReleasedChunks(BTreeMap<StripeId, Lsn>);

impl ReleasedChunks {
    /// Of these blocks, in their order.
    pub(super) fn of(chain: &[(JournalHeader, Vec<Record>)]) -> ReleasedChunks {
        let each =
            chain.iter().flat_map(|(header, records)| records.iter().map(|record| (header.lsn, record)));
        ReleasedChunks(
            each.filter_map(|(lsn, record)| match *record {
                Record::Free { stripe } | Record::Converted { stripe } | Record::Rehome { stripe, .. } => {
                    Some((stripe, lsn))
                }
                _ => None,
            })
            .collect(),
        )
    }

    /// Whether the stripe releases a chunk in block `lsn` or later.
    pub(super) fn any_since(&self, lsn: Lsn, stripe: StripeId) -> bool {
        self.0.get(&stripe).is_some_and(|&released| released >= lsn)
    }
}
