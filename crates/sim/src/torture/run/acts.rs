//! The acts of a run besides requests: their names, as counted in [`super::Outcome::reached`], and how long they last.

/// Names of acts, as counted in [`super::Outcome::reached`].
pub(super) const ACTS: [&str; 32] = [
    "blackouts",
    "members_left_out",
    "members_detached",
    "members_taken_offline",
    "members_made_to_fail",
    "members_made_to_lose_a_die",
    "members_made_to_lose_a_die_under_a_cache",
    "members_brought_back",
    "members_replaced",
    "members_replaced_by_spares",
    "members_evacuated",
    "members_evacuated_at_last",
    "members_mistaken",
    "members_needed",
    "members_slowed",
    "members_held_up",
    "members_silent",
    "members_not_missed",
    "members_still_silent",
    "members_added",
    "members_lost_joining",
    "members_removed",
    "members_kept",
    "members_weighed",
    "scrubs_ordered",
    "throttles_ordered",
    "step_arounds_ordered",
    "growths_ordered",
    "shares_ordered",
    "limits_ordered",
    "inspections",
    "inspections_with_few",
];

/// How long a hung member answers nothing. The I/O timeout of most plans is shorter; while the pool is opened it is longer.
pub(super) const HANG_NS: (u64, u64) = (100_000_000, 15_000_000_000);
/// I/O timeout of a plan without disks: nothing else takes that long.
pub(super) const IO_TIMEOUT_NS: u64 = 2_000_000_000;
/// I/O timeout of a plan with disks.
pub(super) const IO_TIMEOUT_DISK_NS: u64 = 60_000_000_000;
