//! The oracle of events: each exclusion and return of a member, each error and repair, and each refusal has its event, and no
//! event tells what has not happened.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use sinew_engine::control::events::{Entry, Event, MemberChange};
use sinew_format::model::config::MemberState;
use sinew_members::member_stats::MemberStats;
use sinew_members::status::ShardStatus;

use crate::host::OpenPool;
use crate::torture::failure::{Kind, Wrong};

use super::state::Run;

impl Run {
    /// Compares the events of an opening with what the pool and its clients know.
    pub(super) fn check_events(&mut self, pool: &Rc<OpenPool>) -> Result<(), Wrong> {
        let before = self.collect_quietly(pool)?;
        let refused = self.work.refusals.get();
        let control = Rc::clone(&pool.control);
        let looked = self.world.block_on(async move {
            let looked = control.observe().await;
            // At the moment of the look, before anything else happens.
            (looked, control.events().after(0), control.config(), control.has_failed())
        });
        let (looked, entries, config, has_failed) = looked.map_err(|e| Kind::Stuck.of(e))?;
        looked.map_err(|e| Kind::WrongAnswer.of(format!("a look: {e}")))?;
        let is_whole = entries.first().is_some_and(|entry| entry.number == 1);
        // A pool that has failed says just that.
        if !is_whole || has_failed || self.work.blackout.get() {
            return Ok(());
        }
        let wrong = |what: String| Err(Kind::WrongEvents.of(what));
        let out = config.out().into_iter().enumerate();
        let known: BTreeSet<usize> = out.filter(|(_, out)| *out).map(|(member, _)| member).collect();
        let told = told_out(&entries);
        if told != known {
            let states: Vec<&str> = config.members.iter().map(|member| member.state.name()).collect();
            let events: Vec<String> = entries.iter().map(|entry| entry.event.to_string()).collect();
            let what =
                format!("members {known:?} are out, events tell that {told:?} are: {states:?}, {events:?}");
            return wrong(what);
        }
        let is_missing = |member: usize| config.members[member].state == MemberState::Missing;
        let known: BTreeSet<usize> = (0..config.members.len()).filter(|&member| is_missing(member)).collect();
        let told = told_missing(&entries);
        if told != known {
            return wrong(format!("members {known:?} are missing, events tell that {told:?} are"));
        }
        let after = self.collect_quietly(pool)?;
        check_errors(&entries, &before, &after).or_else(wrong)?;
        let is_loss = |event: &Event| matches!(event, Event::PoolFailed | Event::DamageFound { .. });
        if let Some(entry) = entries.iter().find(|entry| is_loss(&entry.event)) {
            return wrong(format!("nothing is lost, and an event tells: {}", entry.event));
        }
        let requests =
            |entry: &Entry| if let Event::NoSpace { requests, .. } = entry.event { requests } else { 0 };
        let told: u64 = entries.iter().map(requests).sum();
        let refused_since = self.work.refusals.get();
        // The refusals of a volume that was deleted since the last look have no event.
        // One that is under way may have been refused in part.
        let is_invented = told > 0 && refused_since == 0 && self.work.at_work.get() == 0;
        if self.work.plan.tenancies == 0 && (told < refused || is_invented) {
            return wrong(format!("{refused_since} requests of clients were refused, events tell of {told}"));
        }
        Ok(())
    }
}

/// The members that are out according to the events.
fn told_out(entries: &[Entry]) -> BTreeSet<usize> {
    use MemberChange::*;
    let mut told = BTreeSet::new();
    for entry in entries {
        match &entry.event {
            Event::Opened { out, .. } => told.extend(out),
            Event::Member { member, change, .. } => match change {
                Failed | Offline | Missing | Evacuating => drop(told.insert(*member)),
                Back | Replaced | Added | Kept | Removed => drop(told.remove(member)),
                Hung | Leaving | Slow | NotSlow | Unnamed | Named => {}
            },
            _ => {}
        }
    }
    told
}

/// The members of which the last event says that they are not there.
fn told_missing(entries: &[Entry]) -> BTreeSet<usize> {
    use MemberChange::*;
    let mut told = BTreeSet::new();
    for entry in entries {
        match &entry.event {
            Event::Member { member, change: Missing, .. } => drop(told.insert(*member)),
            Event::Member { change: Hung | Slow | NotSlow | Unnamed | Named, .. } => {}
            Event::Member { member, .. } => drop(told.remove(member)),
            _ => {}
        }
    }
    told
}

/// Read errors, checksum errors, and repairs of a member.
type Errors = [u64; 3];

/// Compares the errors and repairs of members that events tell of with the counts before and after the look. Those of a device
/// that has another number, or gave its number away, are counted anew.
fn check_errors(entries: &[Entry], before: &ShardStatus, after: &ShardStatus) -> Result<(), String> {
    use MemberChange::{Added, Back, Removed, Replaced};
    let mut told: BTreeMap<usize, Errors> = BTreeMap::new();
    let mut changed = BTreeSet::new();
    for entry in entries {
        match &entry.event {
            Event::MemberErrors { member, read_errors, checksum_errors, repaired_blocks } => {
                let sums = told.entry(*member).or_default();
                for (sum, now) in sums.iter_mut().zip([read_errors, checksum_errors, repaired_blocks]) {
                    *sum += now;
                }
            }
            Event::Member { member, change: Replaced | Added | Removed | Back, .. } => {
                changed.insert(*member);
            }
            _ => {}
        }
    }
    let counts = |stats: &MemberStats| -> Errors {
        [u64::from(stats.read_errors), stats.checksum_errors, stats.repaired_blocks]
    };
    for (member, (before, after)) in before.members.iter().zip(&after.members).enumerate() {
        let (low, high) = (counts(before), counts(after));
        let told = told.get(&member).copied().unwrap_or_default();
        let is_right = (0..3).all(|i| (low[i]..=high[i]).contains(&told[i]));
        // Another device took the number during this look; the event of that comes with the next one.
        let is_changing = (0..3).any(|i| high[i] < low[i]);
        if !is_right && !is_changing && !changed.contains(&member) {
            return Err(format!(
                "member {member} has {low:?} to {high:?} read errors, checksum errors and repairs; events tell of {told:?}"
            ));
        }
    }
    Ok(())
}
