//! The time to compute the location of a block. These are the only figures of experiments that depend on the machine and its
//! load.

use std::hint::black_box;
use std::time::{Duration, Instant};

use sinew_layout::fastscale::FastScale;
use sinew_layout::grown::Method;
use sinew_layout::round_robin::{RoundRobin, SemiRoundRobin};

use crate::file::growth::GrowthSpec;
use crate::results::schema::AddressingTimes;
use crate::{Error, Result};

/// The number of random blocks: few enough for their numbers to stay in the cache.
const RANDOM_BLOCKS: usize = 1 << 16;
/// Sequential blocks are timed in pieces of this many: each takes about a millisecond, which is often undisturbed even on a
/// busy machine.
const PIECE_BLOCKS: u64 = 1 << 18;
/// Each time is the shortest of this many repeats, or of as many as fit into `REPEAT_TIME_MAX`, but of at least
/// `REPEATS_MIN`.
const REPEATS: u32 = 21;
const REPEATS_MIN: u32 = 3;
const REPEAT_TIME_MAX: Duration = Duration::from_millis(20);

/// Times the addressing of an array; nothing if the growth method is not one of RAID 0.
///
/// # Errors
/// [`Error::Setting`] if the array cannot be computed.
pub(crate) fn take(spec: &GrowthSpec) -> Result<Option<AddressingTimes>> {
    let history = spec.history(spec.additions)?;
    let blocks = u64::from(history.width()) * u64::from(spec.rows);
    let numbers = random_blocks(blocks);
    let random = numbers.iter().copied();
    Ok(match spec.method {
        Method::FastScale => {
            let array = FastScale::new(history, spec.rows);
            let array = array.map_err(|error| Error::setting("growth", error.to_string()))?;
            let homes: Vec<_> = random.clone().map(|block| array.home(block)).collect();
            Some(AddressingTimes {
                random_ns: best(random, |block| array.home(block)),
                in_order_ns: in_order(blocks, |first| array.cursor(first), |home| home),
                backwards_ns: Some(best(homes.iter(), |&home| array.block_at(home))),
            })
        }
        Method::RoundRobin => {
            let array = RoundRobin::new(history.width());
            let homes: Vec<_> = random.clone().map(|block| array.home(block)).collect();
            Some(AddressingTimes {
                random_ns: best(random, |block| array.home(block)),
                in_order_ns: in_order(blocks, |first| first.., |block| array.home(block)),
                backwards_ns: Some(best(homes.iter(), |&home| array.block_at(home))),
            })
        }
        Method::SemiRoundRobin => {
            let array = SemiRoundRobin::new(history);
            Some(AddressingTimes {
                random_ns: best(random, |block| array.disk(block)),
                in_order_ns: in_order(blocks, |first| first.., |block| array.disk(block)),
                backwards_ns: None,
            })
        }
        Method::Restripe | Method::Spread => None,
    })
}

/// The mean time for a block when all are found in order, in nanoseconds. Each piece counts with its shortest time.
fn in_order<I, U>(blocks: u64, from: impl Fn(u64) -> I, find: impl Fn(I::Item) -> U) -> f64
where
    I: Iterator + Clone,
{
    let piece = |first: u64| {
        let len = PIECE_BLOCKS.min(blocks - first);
        best(from(first).take(len as usize), &find) * len as f64
    };
    (0..blocks).step_by(PIECE_BLOCKS as usize).map(piece).sum::<f64>() / blocks as f64
}

/// The mean time for an item in the fastest repeat, in nanoseconds.
fn best<T, U>(items: impl Iterator<Item = T> + Clone, find: impl Fn(T) -> U) -> f64 {
    let count = items.clone().count();
    let began = Instant::now();
    let mut shortest = Duration::MAX;
    for repeat in 0..REPEATS {
        if repeat >= REPEATS_MIN && began.elapsed() > REPEAT_TIME_MAX {
            break;
        }
        let started = Instant::now();
        items.clone().for_each(|item| {
            black_box(find(item));
        });
        shortest = shortest.min(started.elapsed());
    }
    shortest.as_nanos() as f64 / count as f64
}

/// Random blocks, the same in every run: xorshift64 with a fixed seed (Marsaglia, 2003).
fn random_blocks(below: u64) -> Vec<u64> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    (0..RANDOM_BLOCKS).map(next).collect()
}
