//! Faults as drawn, without members.

use super::*;

const ALL: Range<u64> = 0..u64::MAX;

fn chance(rate: f64) -> Chance {
    Chance { rate, range: ALL, after: 0, seed: 1 }
}

fn buf(bytes: usize) -> Buf {
    Buf::copy_of(&vec![0x5a; bytes])
}

fn wrong_bits(a: &[u8], b: &[u8]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

#[test]
fn spikes_come_and_go() {
    let ms = Duration::from_millis;
    let spikes = Spikes { period: ms(200), length: ms(50), height: ms(20) };
    let delayed = (0..1000).filter(|now| spikes.delay_ns(now * 1_000_000) == 20_000_000);
    assert_eq!(delayed.count(), 250);
}

#[test]
fn as_many_requests_are_struck_as_was_said() {
    let struck = |chance: &Chance| (0..100_000).filter(|&n| chance.strikes(n, 0, 4096).is_some()).count();
    assert!((900..1100).contains(&struck(&chance(0.01))));
    assert_eq!(struck(&chance(1.0)), 100_000);
    assert_eq!(struck(&Chance { after: 99_990, ..chance(1.0) }), 10);
    let other: Vec<_> = [1, 2].map(|seed| struck(&Chance { seed, ..chance(0.01) })).to_vec();
    assert_ne!(other[0], other[1], "the seed matters");
}

#[test]
fn only_what_touches_the_range_is_struck() {
    let chance = Chance { range: 8192..16384, ..chance(1.0) };
    let touched: Vec<u64> = (0..6).filter(|n| chance.strikes(0, n * 4096, 4096).is_some()).collect();
    assert_eq!(touched, [2, 3]);
    assert!(chance.strikes(0, 0, 8193).is_some());
}

#[test]
fn errors_befall_one_side() {
    let faults = Faults::new(vec![Fault::Errors(Side::Writes, chance(1.0))], 1 << 20);
    assert_eq!(faults.draw(Side::Writes, 0, 4096).error(), Some(IoError::Failed(libc::EIO)));
    assert_eq!(faults.draw(Side::Reads, 0, 4096).error(), None);
    assert_eq!(faults.told()[0].1, 1);
}

#[test]
fn damage_is_as_large_as_was_said_and_where() {
    for (damage, bits) in [(Damage::Bit, 1), (Damage::Sector, 4096)] {
        let range = 12_288..16_384;
        let chance = Chance { range, ..chance(1.0) };
        let faults = Faults::new(vec![Fault::Corruption(Side::Reads, chance, damage)], 1 << 20);
        for _ in 0..100 {
            let mut read = buf(16_384);
            faults.draw(Side::Reads, 4096, 16_384).spoil(&mut read);
            assert_eq!(wrong_bits(read.bytes(), buf(16_384).bytes()), bits);
            // Bytes 12288 on of the member are 8192 on of the request.
            assert_eq!(wrong_bits(&read.bytes()[8192..12_288], &buf(4096).bytes()[..4096]), bits);
        }
    }
}

#[test]
fn what_others_hold_of_a_write_stays_as_it_was() {
    let faults = Faults::new(vec![Fault::Corruption(Side::Writes, chance(1.0), Damage::Bit)], 1 << 20);
    let data: Gather = Rc::from([buf(4096), buf(8192)]);
    let written = faults.draw(Side::Writes, 0, 12_288).spoiled(Rc::clone(&data));
    let flat: Vec<u8> = written.iter().flat_map(|b| b.bytes().to_vec()).collect();
    assert_eq!(wrong_bits(&flat, buf(12_288).bytes()), 1);
    assert!(data.iter().all(|part| part.bytes().iter().all(|&b| b == 0x5a)));
    let clean = Faults::new(Vec::new(), 1 << 20).draw(Side::Writes, 0, 12_288).spoiled(Rc::clone(&data));
    assert!(Rc::ptr_eq(&clean, &data), "nothing is copied without need");
}
