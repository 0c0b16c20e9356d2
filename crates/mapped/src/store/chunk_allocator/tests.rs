//! That allocation strands no room, on uneven members and with weights.

use super::*;
use sinew_format::model::mapped_geometry::Protection;

/// An allocator of one shard for members with these numbers of chunks, and these weights.
fn allocator(geometry: MappedGeometry, chunks: &[u64], weights: &[u8]) -> ChunkAllocator {
    let mut space = ChunkAllocator::new(geometry, chunks.len(), true, 7);
    for (&count, &weight) in chunks.iter().zip(weights) {
        let layout = MemberLayout { chunks: count as u32, page_slots: 64, ..MemberLayout::default() };
        space.push_member(layout, MemberState::Active, weight);
    }
    space
}

#[test]
fn copies_on_uneven_members_strand_no_room() {
    for (copies, columns, chunks) in
        [(3, 2, vec![200, 200, 200, 400]), (2, 3, vec![100, 300, 100, 100]), (3, 1, vec![300, 300, 90, 110])]
    {
        let protection = Protection::Mirror { copies };
        let geometry = MappedGeometry {
            protection,
            data_columns: columns,
            shards: 1,
            checksums: true,
            journal_blocks: 64,
        };
        let g = geometry.checked_for(chunks.len()).unwrap();
        let mut space = allocator(g, &chunks, &vec![WEIGHT_FULL; chunks.len()]);
        let plans = std::iter::from_fn(|| {
            space.allocate_stripe(columns, StripeForm::Mirrored, Purpose::Internal, |_| true, |_| 0)
        });
        let placed: usize = plans.map(|plan| plan.columns).sum();
        let possible = declustered::stripes_placeable(&chunks, usize::from(copies)) as usize;
        assert!(placed + 2 * columns >= possible, "{placed} of {possible} on {chunks:?}");
    }
}

#[test]
fn members_fill_in_proportion_to_their_weights_and_then_wholly() {
    let (columns, chunks, weights) = (3, [1000; 8], [100, 100, 100, 100, 100, 100, 60, 20]);
    let geometry = MappedGeometry {
        protection: Protection::Parity1,
        data_columns: columns,
        shards: 1,
        checksums: true,
        journal_blocks: 64,
    };
    let mut space = allocator(geometry.checked_for(chunks.len()).unwrap(), &chunks, &weights);
    let mut allocate =
        || space.allocate_stripe(columns, StripeForm::Parity, Purpose::Internal, |_| true, |_| 0);
    let taken: Vec<StripeChunks> = std::iter::from_fn(&mut allocate).take(850).collect();
    let of = |member: usize| {
        let homes = taken.iter().flat_map(|stripe| stripe.homes.iter().flatten());
        homes.filter(|home| usize::from(home.member.0) == member).count()
    };
    // Half of what all weights together allow.
    for (member, weight) in weights.into_iter().enumerate() {
        let share = 4 * 850 * usize::from(weight) / 680;
        assert!(of(member).abs_diff(share) <= share / 10, "member {member}: {} of {share}", of(member));
    }
    let rest = std::iter::from_fn(allocate).filter(|stripe| stripe.columns == columns).count();
    assert_eq!(rest, 2000 - 850, "a weight takes no room away");
}
