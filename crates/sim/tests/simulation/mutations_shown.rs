//! Mutations that the torture does not see: scenarios of other tests show them.

use sinew_core::mutation::{Mutation, choose};

use crate::{
    arrays, damage, given_up, governor, hung, limits, lost_pages, mirrors, protections, replacement,
    returned, shares, table_cache, thin,
};

#[test]
fn defects_that_no_plan_shows_are_found() {
    for defect in Mutation::BY_SCENARIO {
        choose(Some(defect));
        let shown = match defect {
            Mutation::AskNoOther => hung::other_members_are_asked(),
            Mutation::BlameBacklogged => shares::bursts_of_others_keep_no_volume_out(),
            Mutation::CountOverdue => shares::others_go_on_beside_a_member_that_stops(),
            Mutation::CrowdCache => table_cache::changed_pages_keep_to_the_bound(),
            Mutation::CountOutgoing => hung::outgoing_members_count(),
            Mutation::DemoteGrows => governor::demotion_never_grows(),
            Mutation::EndlessGrace => shares::a_greedy_volume_takes_turns(),
            Mutation::ForgetLostBlocks => damage::damage_is_told_truly(),
            Mutation::EvictShort => table_cache::slots_stay_in_memory_while_their_page_lacks_a_copy(),
            Mutation::LeaveFullUnflushed => thin::full_members_are_flushed(),
            Mutation::LimitUnseen => limits::waiting_requests_see_changes(),
            Mutation::MoveUnsettled => protections::late_writes_move_as_well(),
            Mutation::NoteAllLatencies => shares::reads_without_content_tell_nothing(),
            Mutation::ShareByArrival => shares::greedy_volumes_are_served_alike(),
            Mutation::ShareLane => shares::reads_do_not_wait_for_writes(),
            Mutation::ShareUnwoken => shares::ends_wake_those_that_wait(),
            Mutation::ForgetGivenUp => given_up::lost_blocks_are_written_one_by_one(),
            Mutation::GrowOntoStale => arrays::growth_awaits_the_rebuild_of_new_members(),
            Mutation::GiveUpUnflushed => given_up::power_failures_show_no_zeros(16..200),
            Mutation::TrustFoundPages => lost_pages::an_opening_notices_lost_pages(),
            Mutation::SwapForever => governor::uniform_load_rests(),
            Mutation::TrustDirty => mirrors::reads_after_a_crash_are_of_one_copy(),
            Mutation::OrderWithoutRoom => hung::orders_leave_room_in_the_log(),
            Mutation::OfflineUncopied => returned::tables_are_on_members_that_stay(0..64),
            Mutation::WipeTogether => replacement::power_losses_leave_members_whole(0..400),
            other => panic!("no scenario shows {other:?}"),
        };
        choose(None);
        assert!(shown.is_err(), "{defect:?} is not found");
    }
}
