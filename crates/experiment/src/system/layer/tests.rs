//! The layers against a model: an array of numbers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf, Bufs};
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_sim::{Rng, SimIo, World};

use crate::system::layer::log::{Log, SegmentGeometry};
use crate::system::layer::nv_buffer::NvBuffer;
use crate::system::layer::store::Store;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Memory with random latencies.
struct Slow {
    io: SimIo,
    rng: RefCell<Rng>,
    blocks: Rc<RefCell<Vec<u64>>>,
    writes: Rc<Cell<u64>>,
}

impl Slow {
    fn new(world: &World, blocks: usize) -> Slow {
        Slow {
            io: world.io(),
            rng: RefCell::new(world.rng("slow")),
            blocks: Rc::new(RefCell::new(vec![0; blocks])),
            writes: Rc::default(),
        }
    }

    async fn pause(&self) {
        let ns = 1000 + self.rng.borrow_mut().below(200_000);
        self.io.sleep(ns).await;
    }
}

impl Store for Slow {
    fn bytes(&self) -> u64 {
        self.blocks.borrow().len() as u64 * BLOCK
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Bufs, VolumeError> {
        self.pause().await;
        let first = (offset / BLOCK) as usize;
        let blocks = self.blocks.borrow()[first..first + (len / BLOCK) as usize].to_vec();
        Ok(blocks.into_iter().map(filled).collect())
    }

    async fn write(&self, offset: u64, data: Buf) -> Result<(), VolumeError> {
        self.writes.set(self.writes.get() + 1);
        self.pause().await;
        for (i, block) in data.bytes().chunks_exact(BLOCK_BYTES).enumerate() {
            self.blocks.borrow_mut()[(offset / BLOCK) as usize + i] = number(block);
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        Ok(())
    }
}

fn filled(number: u64) -> Buf {
    let mut buf = Buf::zeroed(BLOCK_BYTES);
    buf.bytes_mut().chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&number.to_le_bytes()));
    buf
}

fn number(block: &[u8]) -> u64 {
    let number = u64::from_le_bytes(block[..8].try_into().expect("eight bytes"));
    assert!(block.chunks_exact(8).all(|word| word == number.to_le_bytes()), "a block has data of two writes");
    number
}

fn numbers(parts: &[Buf]) -> Vec<u64> {
    parts.iter().flat_map(|part| part.bytes().chunks_exact(BLOCK_BYTES).map(number)).collect()
}

/// The content that each block may have: that of the last acknowledged write, or of a write in flight.
#[derive(Clone, Default)]
struct Model {
    /// The number of the last acknowledged write. Numbers rise, so the block holds none below it.
    least: Vec<u64>,
    /// The highest number of any write of the block.
    most: Vec<u64>,
}

/// Clients that write numbers and read them. Each client writes only to its own range, so that the order of the writes to a
/// block is known; reads go to all blocks.
fn torture<S: Clone + 'static>(
    world: &World,
    blocks: u64,
    layer: &S,
    write: impl AsyncFn(&S, u64, Buf) -> Result<(), VolumeError> + Clone + 'static,
    read: impl AsyncFn(&S, u64, u64) -> Result<Bufs, VolumeError> + Clone + 'static,
) {
    const CLIENTS: u64 = 6;
    const STEPS: u64 = 1500;
    let model = Model { least: vec![0; blocks as usize], most: vec![0; blocks as usize] };
    let model = Rc::new(RefCell::new(model));
    let next = Rc::new(Cell::new(1));
    let left = Rc::new(Cell::new(CLIENTS));
    for client in 0..CLIENTS {
        let (model, next, left, layer) =
            (Rc::clone(&model), Rc::clone(&next), Rc::clone(&left), layer.clone());
        let (write, read) = (write.clone(), read.clone());
        let mut rng = world.rng(&format!("client {client}"));
        world.spawn(async move {
            let share = blocks / CLIENTS;
            for _ in 0..STEPS {
                let len = 1 + rng.below(12);
                if rng.below(2) == 0 {
                    let first = client * share + rng.below(share - len);
                    let mut data = Buf::zeroed((len * BLOCK) as usize);
                    let mut given = Vec::new();
                    for block in data.bytes_mut().chunks_exact_mut(BLOCK_BYTES) {
                        let number = next.replace(next.get() + 1);
                        block.copy_from_slice(filled(number).bytes());
                        given.push(number);
                    }
                    for (i, &number) in given.iter().enumerate() {
                        model.borrow_mut().most[first as usize + i] = number;
                    }
                    write(&layer, first * BLOCK, data).await.unwrap();
                    for (i, &number) in given.iter().enumerate() {
                        model.borrow_mut().least[first as usize + i] = number;
                    }
                } else {
                    let first = rng.below(blocks - len);
                    let range = first as usize..(first + len) as usize;
                    let least = model.borrow().least[range.clone()].to_vec();
                    let found = numbers(&read(&layer, first * BLOCK, len * BLOCK).await.unwrap());
                    assert_eq!(found.len() as u64, len);
                    for ((found, least), block) in found.into_iter().zip(least).zip(range) {
                        let most = model.borrow().most[block];
                        assert!(
                            (least..=most).contains(&found),
                            "block {block}: {found}, not {least} to {most}"
                        );
                    }
                }
            }
            left.set(left.get() - 1);
        });
    }
    world.run_until(|| left.get() == 0).unwrap();
    // No write is in flight: each block holds the number of the last one.
    let layer = layer.clone();
    let all = world.block_on(async move { read(&layer, 0, blocks * BLOCK).await }).unwrap().unwrap();
    assert_eq!(numbers(&all), model.borrow().least);
}

#[test]
fn a_buffer_returns_the_data_written_to_it() {
    for (seed, blocks_of_buffer) in [(1, 24), (2, 64), (3, 2000)] {
        let world = World::new(seed);
        let below = Slow::new(&world, 600);
        let (stored, writes) = (Rc::clone(&below.blocks), Rc::clone(&below.writes));
        let buffer = NvBuffer::start(world.io(), below, blocks_of_buffer * BLOCK);
        torture(
            &world,
            600,
            &buffer,
            async |buffer, offset, data| buffer.write(offset, data).await,
            async |buffer, offset, len| buffer.read(offset, len).await,
        );
        // In the end all data is in the array, and the array got fewer writes than blocks were written.
        world.run_for(1_000_000_000).unwrap();
        let all = world.block_on(async move { buffer.read(0, 600 * BLOCK).await }).unwrap().unwrap();
        assert_eq!(numbers(&all), *stored.borrow(), "seed {seed}");
        assert!(writes.get() > 100 && writes.get() < 6 * 750 * 6, "{} writes", writes.get());
    }
}

#[test]
fn a_write_waits_for_its_cache_lines_and_for_space() {
    let world = World::new(1);
    let buffer = NvBuffer::start(world.io(), Slow::new(&world, 600), 16 * BLOCK);
    let io = world.io();
    let took = world.block_on(async move {
        let began = io.now();
        buffer.write(0, filled(7)).await.unwrap();
        let one = io.now() - began;
        buffer.write(BLOCK, Buf::zeroed(32 * BLOCK_BYTES)).await.unwrap();
        (one, io.now() - began - one)
    });
    let (one, many) = took.unwrap();
    assert_eq!(one, 64 * 100, "64 lines of 100 ns");
    assert!(many > 32 * 64 * 100 + 1000, "the second half waited for space: {many} ns");
}

#[test]
fn a_log_returns_the_data_written_to_it() {
    for (seed, groups) in [(1, 4), (2, 1), (3, 3)] {
        let world = World::new(seed);
        let geometry = SegmentGeometry { chunk_blocks: 4, columns: 3, groups };
        let below = Slow::new(&world, 1200);
        let writes = Rc::clone(&below.writes);
        let log = Log::start(world.io(), below, geometry, 0.1).unwrap();
        let blocks = log.bytes() / BLOCK;
        assert!((600..1100).contains(&blocks), "{blocks} of 1200 blocks");
        torture(
            &world,
            blocks,
            &log,
            async |log, offset, data| log.write(offset, data).await,
            async |log, offset, len| log.read(offset, len).await,
        );
        assert!(writes.get() > 3000, "{} writes: cleaning moved blocks", writes.get());
        // Cleaning ends.
        world.run_for(1_000_000_000).unwrap();
        log.check();
    }
}

#[test]
fn a_segment_is_a_stripe_of_one_group() {
    let geometry = SegmentGeometry { chunk_blocks: 16, columns: 6, groups: 4 };
    // Each place has its own block, and each segment is in one group and one row: chunks are dealt to the groups in turn.
    let mut seen = vec![false; 96 * 12];
    for place in 0..96 * 12 {
        let block = geometry.block(place);
        assert!(!std::mem::replace(&mut seen[block as usize], true), "place {place}");
        let (segment, chunk) = (place / 96, block / 16);
        assert_eq!((chunk % 4, chunk / 24), (u64::from(segment % 4), u64::from(segment / 4)));
        assert!(!geometry.is_adjacent_to_next(place) || geometry.block(place + 1) == block + 1);
    }
    assert!(
        Log::start(World::new(1).io(), Slow::new(&World::new(1), 96), geometry, 0.1).is_none(),
        "too small"
    );
}
