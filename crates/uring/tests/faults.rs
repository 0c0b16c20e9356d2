//! Injected faults as seen by reads and writes.

use std::time::{Duration, Instant};

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Io, IoError};
use sinew_devices::flash;
use sinew_uring::{Chance, Config, Damage, Devices, DriveModel, Fault, Runtime, Side, UringIo};

const MEMBER_BYTES: u64 = 64 << 20;
const EIO: i32 = 5;

fn member_with(faults: Vec<Fault>) -> (Devices, DeviceId, Runtime) {
    let devices = Devices::new();
    let device = devices.memory(MEMBER_BYTES).expect("memory");
    devices.give_faults(device, faults);
    let runtime = Runtime::new(Config { devices: devices.clone(), ..Config::default() }).expect("io_uring");
    (devices, device, runtime)
}

fn always() -> Chance {
    Chance { rate: 1.0, range: 0..u64::MAX, after: 0, seed: 7 }
}

async fn write(io: &UringIo, device: DeviceId, block: u64) -> Result<(), IoError> {
    io.write(device, block * BLOCK_BYTES as u64, vec![Buf::copy_of(&[3; BLOCK_BYTES])].into()).await
}

async fn read(io: &UringIo, device: DeviceId, block: u64) -> Result<Vec<u8>, IoError> {
    let (buf, done) = io.read(device, block * BLOCK_BYTES as u64, Buf::zeroed(BLOCK_BYTES)).await;
    done.map(|()| buf.bytes().to_vec())
}

#[test]
fn faults_begin_when_told_and_are_counted() {
    let (devices, device, runtime) = member_with(vec![
        Fault::Errors(Side::Writes, Chance { after: 1, ..always() }),
        Fault::Corruption(Side::Reads, Chance { range: 4096..8192, ..always() }, Damage::Sector),
    ]);
    let io = runtime.io();
    runtime.block_on(async {
        for block in 0..3 {
            assert_eq!(write(&io, device, block).await, Ok(()), "nothing fails before they begin");
        }
        devices.begin_faults();
        assert_eq!(write(&io, device, 0).await, Ok(()), "one write is let through");
        assert_eq!(write(&io, device, 1).await, Err(IoError::Failed(EIO)));
        let good = read(&io, device, 0).await.expect("reads do not fail");
        assert!(good.iter().all(|&byte| byte == 3));
        let wrong = read(&io, device, 1).await.expect("it says that all is well");
        assert_eq!(wrong.iter().filter(|&&byte| byte != 3).count(), 512);
    });
    let struck: Vec<u64> = devices.faults(device).into_iter().map(|(_, struck)| struck).collect();
    assert_eq!(struck, [1, 1]);
}

#[test]
fn a_member_takes_the_time_of_a_drive() {
    let config = flash::datacenter();
    let drive = DriveModel { name: "datacenter", config, aged: Some(0.5), seed: 1 };
    let (devices, device, runtime) = member_with(vec![Fault::Latency(Box::new(drive))]);
    let io = runtime.io();
    assert!(!io.answers_at_once(device));
    devices.begin_faults();
    let took = runtime.block_on(async {
        let began = Instant::now();
        for block in 0..50 {
            read(&io, device, block).await.expect("a read");
        }
        let alone = began.elapsed();
        // All at once they are done by several dies, and one after the other would take longer.
        let (told, done) = async_channel::unbounded();
        let began = Instant::now();
        for block in 0..50 {
            let (io, told) = (io.clone(), told.clone());
            runtime.io().spawn(async move {
                let took = read(&io, device, block).await.map(drop);
                told.try_send(took).expect("the receiver waits");
            });
        }
        for _ in 0..50 {
            done.recv().await.expect("an answer").expect("a read");
        }
        io.flush(device).await.expect("a flush");
        (alone, began.elapsed())
    });
    // 75 us to sense a page that is written, and what the link adds.
    assert!(took.0 > Duration::from_micros(50 * 75), "{took:?}");
    assert!(took.1 < took.0, "{took:?}");
}

#[test]
fn a_drive_is_not_as_large_as_one_likes() {
    let drive = DriveModel { name: "slc", config: flash::slc(), aged: None, seed: 0 };
    assert!(drive.sized(1 << 30).is_ok());
    assert!(drive.sized(1 << 50).is_err());
}
