//! The ledger against stores that keep their word, and one that does not.

use sinew_workload::Kind;

use super::*;

fn range(from: u64, end: u64) -> Range {
    Range { volume: 0, from, end }
}

fn write(ledger: &mut Ledger, at: Range, number: u64) {
    let begun = ledger.begin_change(at, Some(number));
    ledger.end_change(at, begun, true);
}

fn read(ledger: &mut Ledger, at: Range) -> Vec<(Range, Vec<Number>)> {
    let begun = ledger.begin_read();
    ledger.end_read(at, begun)
}

#[test]
fn an_acknowledged_write_replaces_what_was_there() {
    let mut ledger = Ledger::default();
    write(&mut ledger, range(0, 100), 1);
    write(&mut ledger, range(40, 60), 2);
    let found = read(&mut ledger, range(30, 200));
    assert_eq!(
        found,
        [(range(30, 40), vec![Some(1)]), (range(40, 60), vec![Some(2)]), (range(60, 100), vec![Some(1)])]
    );
    assert_eq!(ledger.known(), [range(0, 100)]);
    assert!(read(&mut ledger, Range { volume: 1, from: 0, end: 100 }).is_empty());
}

#[test]
fn a_failed_write_may_be_there_or_not() {
    let mut ledger = Ledger::default();
    write(&mut ledger, range(0, 10), 1);
    let failed = ledger.begin_change(range(0, 10), Some(2));
    ledger.end_change(range(0, 10), failed, false);
    assert_eq!(read(&mut ledger, range(0, 10)), [(range(0, 10), vec![Some(1), Some(2)])]);
    write(&mut ledger, range(0, 10), 3);
    assert_eq!(read(&mut ledger, range(0, 10)), [(range(0, 10), vec![Some(3)])]);
}

#[test]
fn what_was_discarded_is_not_known() {
    let mut ledger = Ledger::default();
    write(&mut ledger, range(0, 10), 1);
    let discard = ledger.begin_change(range(5, 10), None);
    ledger.end_change(range(5, 10), discard, true);
    assert_eq!(ledger.known(), [range(0, 5)]);
    assert_eq!(read(&mut ledger, range(5, 10)), [(range(5, 10), vec![None])]);
}

/// What is under way at a store of single bytes.
struct Flying {
    kind: Kind,
    at: Range,
    number: u64,
    begun: Moment,
    /// Of a write: whether each byte is stored yet. Of a read: what each byte was when it was looked at.
    bytes: Vec<Option<Number>>,
}

/// Small numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % n
    }
}

/// Requests overlap in time at will; each byte of each is carried out at some moment between its beginning and its end.
/// Whatever reads see must be legal. If `forget` is set, the store loses an acknowledged write now and then.
fn illegal_reads(seed: u64, forget: bool) -> usize {
    let (mut dice, mut ledger) = (Dice(seed), Ledger::default());
    let mut store: Vec<Number> = vec![None; 24];
    let (mut flying, mut illegal): (Vec<Flying>, usize) = (Vec::new(), 0);
    for number in 1..600 {
        if flying.len() < 5 {
            let from = dice.below(20);
            let at = range(from, from + 1 + dice.below(4));
            let kind = if dice.below(2) == 0 { Kind::Read } else { Kind::Write };
            let begun = match kind {
                Kind::Read => ledger.begin_read(),
                _ => ledger.begin_change(at, Some(number)),
            };
            flying.push(Flying { kind, at, number, begun, bytes: vec![None; (at.end - at.from) as usize] });
        }
        for _ in 0..dice.below(6) {
            let one = dice.below(flying.len() as u64) as usize;
            let Flying { kind, at, number, bytes, .. } = &mut flying[one];
            let byte = dice.below(bytes.len() as u64) as usize;
            let place = &mut store[at.from as usize + byte];
            match kind {
                Kind::Read => bytes[byte] = Some(*place),
                _ if bytes[byte].is_none() => (*place, bytes[byte]) = (Some(*number), Some(None)),
                _ => {}
            }
        }
        let done = flying
            .iter()
            .position(|f| f.bytes.iter().all(Option::is_some) || f.kind == Kind::Write && number % 17 == 0);
        let Some(Flying { kind, at, begun, bytes, .. }) = done.map(|i| flying.swap_remove(i)) else {
            continue;
        };
        if kind == Kind::Write {
            let ok = bytes.iter().all(Option::is_some);
            ledger.end_change(at, begun, ok);
            if forget && ok && dice.below(4) == 0 {
                store[at.from as usize] = Some(0);
            }
            continue;
        }
        for (part, legal) in ledger.end_read(at, begun) {
            let seen = &bytes[(part.from - at.from) as usize..(part.end - at.from) as usize];
            illegal += seen.iter().filter(|seen| !legal.contains(&seen.expect("looked at"))).count();
        }
    }
    illegal
}

#[test]
fn a_store_that_keeps_its_word_is_never_blamed() {
    for seed in 0..300 {
        assert_eq!(illegal_reads(seed, false), 0, "seed {seed}");
    }
}

#[test]
fn a_store_that_forgets_is_found_out() {
    let blamed = (0..300).filter(|seed| illegal_reads(*seed, true) > 0).count();
    assert!(blamed > 290, "{blamed} of 300");
}
