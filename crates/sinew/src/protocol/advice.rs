//! Advice for the operator in words, with the commands to run.

use sinew_engine::control::health::{Advice, Medians, SlowMember};
use sinew_format::model::config::Config;

/// The advice about a pool.
pub(crate) fn text(advice: &Advice, config: &Config) -> String {
    match advice {
        Advice::Nothing => "nothing".to_owned(),
        Advice::UnblockGrowth => {
            "growth waits: chunks cannot be read, or cannot be written where they go; see the errors of members, and \
             bring back or replace those that are out"
                .to_owned()
        }
        Advice::RestoreFromBackup => {
            "since the pool was opened, some blocks had no good copy left: restore them from a backup".to_owned()
        }
        Advice::WaitForRebuild => "a rebuild is under way: wait for it".to_owned(),
        Advice::WaitForRedundancy => "redundancy is being restored: wait for it".to_owned(),
        Advice::AddWithMdadm(members) => {
            format!("member {} out: stop this server and add it again with mdadm", list(members))
        }
        Advice::BringBackOrReplace { members, into_free_space } => {
            let without_device = match into_free_space {
                true => "; without DEVICE it is rebuilt into the free space of the others",
                false => "",
            };
            format!(
                "member {} out: bring it back (`sinew member online {1}`) or replace it (`sinew member replace {1} \
                 DEVICE`{without_device})",
                list(members),
                members[0]
            )
        }
        Advice::WaitForRemoval(member) => format!(
            "member {member} is leaving: wait until its data is on the others, or cancel that (`sinew member remove \
             {member} --cancel`)"
        ),
        Advice::ReplaceBeforeStop(member) => format!(
            "{} does not exist any more; member {member} works until the pool is stopped: replace it before that \
             (`sinew member offline {member}`, then `sinew member replace {member} DEVICE`)",
            config.members[*member].path
        ),
        Advice::Scrub(member) => format!(
            "member {member} returned wrong data or errors, all repaired from the others: run `sinew scrub`, and \
             replace it if that happens again"
        ),
        Advice::ReplaceSlow(slow) => slow_member(slow),
        Advice::MakeRoom => {
            "the pool is almost full: delete or discard data, or add members (`sinew member add DEVICE`)".to_owned()
        }
    }
}

fn slow_member(slow: &SlowMember) -> String {
    let SlowMember { member, slow_for_ns, reads, writes, can_leave } = slow;
    let way_out = match can_leave {
        true => format!("remove it (`sinew member remove {member}`), or replace it"),
        false => "replace it".to_owned(),
    };
    format!(
        "member {member} has been slower than the others for {} s: median read {}, median write {}: {way_out}",
        slow_for_ns / 1_000_000_000,
        medians(reads),
        medians(writes)
    )
}

fn medians(Medians { own_ns, others_ns }: &Medians) -> String {
    let us = |ns: &Option<u64>| ns.map_or("-".to_owned(), |ns| (ns / 1000).to_string());
    format!("{} us (others {})", us(own_ns), us(others_ns))
}

fn list(members: &[usize]) -> String {
    members.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
