//! Advice for the operator in words, with the commands to run.

use std::path::Path;

use sinew_engine::control::health::{Advice, Medians, Safety, SlowMember};
use sinew_format::model::config::Config;

use super::socket;

/// The pool that advice is about, as commands name it.
pub(crate) struct Addressed<'a> {
    config: &'a Config,
    /// The options behind a command.
    options: String,
}

impl<'a> Addressed<'a> {
    /// A pool with its control socket. Where that is in its usual place, commands name the pool.
    pub(crate) fn new(config: &'a Config, control: &Path) -> Addressed<'a> {
        let name = &config.name;
        let is_usual = socket::directories().iter().any(|dir| control == dir.join(format!("{name}.sock")));
        let options = match is_usual {
            true => format!(" --pool {}", quoted(name)),
            false => format!(" --control {}", quoted(&control.display().to_string())),
        };
        Addressed { config, options }
    }

    /// One piece of advice.
    pub(crate) fn text(&self, advice: &Advice) -> String {
        let Addressed { config, options } = self;
        match advice {
            Advice::ServeAgain => {
                "more members are out than the pool survives, so it refuses everything; what was acknowledged is on the \
                 members: see to their devices, stop this server, and serve the pool again"
                    .to_owned()
            }
            Advice::RescueData(members) if members.is_empty() => {
                "tables of the pool are lost on more members than it survives: copy what can be read, for example with nbdcopy \
                 or ddrescue"
                    .to_owned()
            }
            Advice::RescueData(members) => format!(
                "more members are missing than the pool survives: copy what can be read, for example with nbdcopy or ddrescue; \
                 if member {} can be brought back, stop this server and serve the pool again with it",
                list(members)
            ),
            Advice::ServeForWriting => {
                "nothing is written while the pool is served read-only: for repairs and changes stop this server, and serve \
                 it without --read-only"
                    .to_owned()
            }
            Advice::MakePhysicalSpace(members) => format!(
                "member {}: no physical space, so writes wait or are refused: make space where the member is (its file \
                 system, thin pool or zram), or discard data of volumes; writes go on by themselves",
                list(members)
            ),
            Advice::UnblockGrowth => {
                "growth waits: chunks cannot be read, or cannot be written where they go; see the errors of members, and \
                 bring back or replace those that are out"
                    .to_owned()
            }
            Advice::RestoreDamage { ranges } => format!(
                "{ranges} damaged {} of volumes: write the blocks again from a backup; `sinew pool damage{options}` lists \
                 them",
                if *ranges == 1 { "range" } else { "ranges" }
            ),
            Advice::UnblockRebuild => format!(
                "the rebuild waits for stripes with blocks that cannot be read: write the damaged blocks again from a backup, \
                 all those of a stripe together if one alone is refused (`sinew pool damage{options}` lists them); it goes \
                 on by itself"
            ),
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
                    "member {} out: bring it back (`sinew member online {1}{options}`) or replace it (`sinew member \
                     replace {1} DEVICE{options}`{without_device})",
                    list(members),
                    members[0]
                )
            }
            Advice::WaitForRemoval(member) => format!(
                "member {member} is leaving: wait until its data is on the others, or cancel that (`sinew member remove \
                 {member} --cancel{options}`)"
            ),
            Advice::ReplaceBeforeStop(member) => format!(
                "{} does not exist any more; member {member} works until the pool is stopped: replace it before that \
                 (`sinew member offline {member}{options}`, then `sinew member replace {member} DEVICE{options}`)",
                config.members[*member].path
            ),
            Advice::Scrub(member) => format!(
                "member {member} returned wrong data or errors, all repaired from the others: run `sinew scrub{options}`, \
                 and replace it if that happens again"
            ),
            Advice::ReplaceSlow(slow) => self.slow_member(slow),
            Advice::MakeRoom => format!(
                "the pool is almost full: delete or discard data, or add members (`sinew member add DEVICE{options}`)"
            ),
        }
    }

    fn slow_member(&self, slow: &SlowMember) -> String {
        let SlowMember { member, slow_for_ns, reads, writes, can_leave } = slow;
        let way_out = match can_leave {
            true => format!("remove it (`sinew member remove {member}{}`), or replace it", self.options),
            false => "replace it".to_owned(),
        };
        format!(
            "member {member} has been slower than the others for {} s: median read {}, median write {}: {way_out}",
            slow_for_ns / 1_000_000_000,
            medians(reads),
            medians(writes)
        )
    }
}

/// Whether the data is safe, in words.
pub(crate) fn safety(safety: Safety) -> &'static str {
    match safety {
        Safety::Whole => "yes",
        Safety::LessRedundancy => "yes, but with less redundancy than it should have",
        Safety::AtRisk => "yes, but the loss of one more member may lose data",
        Safety::Unknown => "not known until the pool is served again",
        Safety::Lost => "no",
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn medians(Medians { own_ns, others_ns }: &Medians) -> String {
    let us = |ns: &Option<u64>| ns.map_or("-".to_owned(), |ns| (ns / 1000).to_string());
    format!("{} us (others {})", us(own_ns), us(others_ns))
}

fn list(members: &[usize]) -> String {
    members.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
