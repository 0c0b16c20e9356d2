//! The `Io` contract on every kind of member a test can make without privileges.

use std::cell::RefCell;
use std::fs;
use std::path::Path as FilePath;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Gather, Io, IoError};
use sinew_uring::{Config, Devices, IoRoute, OpenError, OpenOptions, Runtime, UringIo, threads};

const MEMBER_BYTES: u64 = 8 << 20;

fn runtime(devices: &Devices) -> Runtime {
    Runtime::new(Config { devices: devices.clone(), ..Config::default() }).expect("io_uring")
}

fn member_in(dir: &FilePath) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in(dir).expect("create a member");
    file.as_file().set_len(MEMBER_BYTES).expect("size a member");
    file
}

fn blocks(fill: u8, count: usize) -> Buf {
    Buf::copy_of(&vec![fill; count * BLOCK_BYTES])
}

fn gather(bufs: Vec<Buf>) -> Gather {
    bufs.into()
}

async fn read(io: &UringIo, device: DeviceId, offset: u64, len: usize) -> Result<Vec<u8>, IoError> {
    let (buf, done) = io.read(device, offset, Buf::zeroed(len)).await;
    done.map(|()| buf.bytes().to_vec())
}

async fn contract(io: UringIo, device: DeviceId) {
    let block = BLOCK_BYTES as u64;
    assert_eq!(io.space(device).expect("space").bytes, MEMBER_BYTES);

    io.write(device, block, gather(vec![blocks(1, 1)])).await.expect("one buffer");
    io.write(device, 2 * block, gather(vec![blocks(2, 1), blocks(3, 2)])).await.expect("gathered");
    let many = (0..2049).map(|_| blocks(9, 1)).collect::<Vec<_>>();
    let too_many = io.write(device, 0, gather(many)).await;
    assert_eq!(too_many, Err(IoError::OutOfRange));
    let many = (0..2043u32).map(|i| blocks(i as u8, 1)).collect::<Vec<_>>();
    io.write(device, 5 * block, gather(many)).await.expect("many buffers");
    io.flush(device).await.expect("flush");

    let expected = [vec![1u8; 4096], vec![2; 4096], vec![3; 8192], vec![0; 4096], vec![1; 4096]].concat();
    assert_eq!(read(&io, device, block, expected.len()).await.expect("read"), expected);
    let last = read(&io, device, MEMBER_BYTES - block, BLOCK_BYTES).await.expect("last block");
    assert!(last.iter().all(|byte| *byte == 2042u32 as u8));

    for (offset, len) in
        [(MEMBER_BYTES, 4096), (MEMBER_BYTES - block, 8192), (u64::MAX - 4095, 4096), (512, 4096)]
    {
        assert_eq!(read(&io, device, offset, len).await, Err(IoError::OutOfRange));
        let written = io.write(device, offset, gather(vec![Buf::zeroed(len)])).await;
        assert_eq!(written, Err(IoError::OutOfRange));
    }
    assert_eq!(read(&io, device, 0, 100).await, Err(IoError::OutOfRange));
    assert_eq!(io.discard(device, MEMBER_BYTES, block).await, Err(IoError::OutOfRange));

    io.discard(device, 16 * block, 16 * block).await.expect("discard");
    let before = read(&io, device, 15 * block, BLOCK_BYTES).await.expect("read beside the discard");
    assert!(before.iter().all(|byte| *byte == 10));
    assert_eq!(io.space(device).expect("space").bytes, MEMBER_BYTES);
}

async fn concurrent(io: UringIo, device: DeviceId) {
    let (done, finished) = async_channel::unbounded();
    for task in 0..64u64 {
        let (io2, done) = (io.clone(), done.clone());
        io.spawn(async move {
            for round in 0..20u64 {
                let offset = (task * 4 + round % 4) * BLOCK_BYTES as u64;
                let fill = (task * 31 + round) as u8;
                io2.write(device, offset, gather(vec![blocks(fill, 1)])).await.expect("write");
                let back = read(&io2, device, offset, BLOCK_BYTES).await.expect("read");
                assert!(back.iter().all(|byte| *byte == fill));
            }
            done.send(()).await.expect("report");
        });
    }
    for _ in 0..64 {
        finished.recv().await.expect("a task ended");
    }
}

fn check_member(dir: &FilePath, path: Option<IoRoute>, expected: IoRoute) {
    let devices = Devices::new();
    let member = member_in(dir);
    let options = OpenOptions { route: path, ..OpenOptions::default() };
    let device = devices.open(member.path(), options).expect("open");
    assert_eq!(devices.route(device), Some(expected));
    let runtime = runtime(&devices);
    runtime.block_on(contract(runtime.io(), device));
    runtime.block_on(concurrent(runtime.io(), device));
}

fn disk_dir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

#[test]
fn contract_on_a_file_through_the_ring() {
    check_member(disk_dir().path(), Some(IoRoute::Ring), IoRoute::Ring);
}

#[test]
fn contract_on_a_file_inline() {
    check_member(disk_dir().path(), Some(IoRoute::Inline), IoRoute::Inline);
}

#[test]
fn contract_on_tmpfs() {
    let shm = FilePath::new("/dev/shm");
    if shm.is_dir() {
        check_member(shm, None, IoRoute::Inline);
        check_member(shm, Some(IoRoute::Ring), IoRoute::Ring);
    }
}

#[test]
fn contract_on_memory() {
    let devices = Devices::new();
    let device = devices.memory(MEMBER_BYTES).expect("memory");
    let runtime = runtime(&devices);
    runtime.block_on(contract(runtime.io(), device));
    runtime.block_on(concurrent(runtime.io(), device));
}

#[test]
fn reads_past_a_truncated_end_fail() {
    let dir = disk_dir();
    for path in [IoRoute::Ring, IoRoute::Inline] {
        let devices = Devices::new();
        let member = member_in(dir.path());
        let options = OpenOptions { route: Some(path), ..OpenOptions::default() };
        let device = devices.open(member.path(), options).expect("open");
        member.as_file().set_len(3 * BLOCK_BYTES as u64).expect("truncate");
        fs::remove_file(member.path()).expect("unlink");
        let runtime = runtime(&devices);
        runtime.block_on(async {
            let io = runtime.io();
            assert_eq!(
                read(&io, device, 0, 3 * BLOCK_BYTES).await.map(|data| data.len()),
                Ok(3 * BLOCK_BYTES)
            );
            let across = read(&io, device, 0, 4 * BLOCK_BYTES).await;
            assert!(matches!(across, Err(IoError::Failed(_))), "{path:?}: {across:?}");
            let past = read(&io, device, 8 * BLOCK_BYTES as u64, BLOCK_BYTES).await;
            assert_eq!(past, Err(IoError::Failed(5)));
        });
    }
}

#[test]
fn a_locked_member_is_refused_until_it_is_closed() {
    let dir = disk_dir();
    let member = member_in(dir.path());
    let (first, second) = (Devices::new(), Devices::new());
    let device = first.open(member.path(), OpenOptions::default()).expect("open");
    let refused = second.open(member.path(), OpenOptions::default());
    assert!(matches!(refused, Err(OpenError::InUse(_))), "{refused:?}");
    let peek = OpenOptions { read_only: true, exclusive: false, route: None };
    second.open(member.path(), peek).expect("looking is free");

    let runtime = runtime(&first);
    let io = runtime.io();
    runtime.block_on(async {
        read(&io, device, 0, BLOCK_BYTES).await.expect("open");
        first.close(device);
        assert_eq!(read(&io, device, 0, BLOCK_BYTES).await, Err(IoError::Gone));
        assert_eq!(io.space(device), Err(IoError::Gone));
    });
    second.open(member.path(), OpenOptions::default()).expect("free again");
}

#[test]
fn a_registry_that_is_gone_holds_no_lock() {
    let dir = disk_dir();
    let member = member_in(dir.path());
    for _ in 0..5000 {
        let devices = Devices::new();
        let device = devices.open(member.path(), OpenOptions::default()).expect("no process has it open");
        let runtime = runtime(&devices);
        let io = runtime.io();
        runtime.block_on(async { io.flush(device).await.expect("flush") });
    }
}

#[test]
fn a_directory_is_no_member() {
    let opened = Devices::new().open("/", OpenOptions::default());
    assert!(matches!(opened, Err(OpenError::WrongKind(_))), "{opened:?}");
    let opened = Devices::new().open("/nonexistent", OpenOptions::default());
    assert!(matches!(opened, Err(OpenError::Os { .. })), "{opened:?}");
}

#[test]
fn a_read_only_member_refuses_writes() {
    let dir = disk_dir();
    let member = member_in(dir.path());
    let devices = Devices::new();
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let device = devices.open(member.path(), options).expect("open");
    let runtime = runtime(&devices);
    let io = runtime.io();
    let written = runtime.block_on(io.write(device, 0, gather(vec![Buf::zeroed(BLOCK_BYTES)])));
    assert_eq!(written, Err(IoError::Failed(9)));
}

#[test]
fn timers_fire_in_order_and_not_early() {
    let runtime = runtime(&Devices::new());
    let io = runtime.io();
    let order = Rc::new(RefCell::new(Vec::new()));
    let start = io.now();
    for ms in [30u64, 10, 20, 10, 0] {
        let (io2, order) = (io.clone(), Rc::clone(&order));
        io.spawn(async move {
            io2.sleep(ms * 1_000_000).await;
            assert!(io2.now() - start >= ms * 1_000_000);
            order.borrow_mut().push(ms);
        });
    }
    runtime.block_on(io.sleep(40_000_000));
    assert_eq!(*order.borrow(), [0, 10, 10, 20, 30]);
}

#[test]
fn threads_wake_each_other() {
    for spin_us in [0, 20] {
        let config = Config { spin: std::time::Duration::from_micros(spin_us), ..Config::default() };
        let (ping, pings) = async_channel::bounded::<u64>(1);
        let (pong, pongs) = async_channel::bounded::<u64>(1);
        let echo = threads::spawn_pinned(None, "echo", config.clone(), move |_| async move {
            while let Ok(number) = pings.recv().await {
                pong.send(number + 1).await.expect("the other side listens");
            }
        })
        .expect("start a thread");
        let runtime = Runtime::new(config).expect("io_uring");
        let io = runtime.io();
        let (done, ended) = async_channel::bounded(1);
        // Once as a task and once as the main future: they have different wakers.
        let (task_ping, task_pongs) = (ping.clone(), pongs.clone());
        io.spawn(async move {
            for number in 0..2000 {
                task_ping.send(number).await.expect("send");
                assert_eq!(task_pongs.recv().await, Ok(number + 1));
            }
            done.send(()).await.expect("report");
        });
        runtime.block_on(async {
            ended.recv().await.expect("the task ended");
            for number in 0..2000 {
                ping.send(number).await.expect("send");
                assert_eq!(pongs.recv().await, Ok(number + 1));
            }
        });
        drop(ping);
        echo.join().expect("no panic").expect("io_uring");
    }
}

#[test]
fn a_busy_task_does_not_hold_up_timers() {
    let devices = Devices::new();
    let device = devices.memory(MEMBER_BYTES).expect("memory");
    let runtime = runtime(&devices);
    let io = runtime.io();
    let busy = io.clone();
    io.spawn(async move {
        loop {
            read(&busy, device, 0, BLOCK_BYTES).await.expect("read");
        }
    });
    runtime.block_on(io.sleep(5_000_000));
}

#[test]
fn tasks_are_dropped_with_their_runtime() {
    let witness = Rc::new(());
    let runtime = runtime(&Devices::new());
    let io = runtime.io();
    let (_sender, receiver) = async_channel::bounded::<()>(1);
    for _ in 0..3 {
        let (witness, receiver, io2) = (Rc::clone(&witness), receiver.clone(), io.clone());
        io.spawn(async move {
            let _held = witness;
            let _ = receiver.recv().await;
            io2.sleep(1).await;
        });
    }
    runtime.block_on(io.sleep(1_000_000));
    assert_eq!(Rc::strong_count(&witness), 4);
    drop(runtime);
    assert_eq!(Rc::strong_count(&witness), 1);
}

#[test]
fn a_wake_after_the_end_of_a_runtime_is_harmless() {
    let (sender, receiver) = async_channel::bounded::<()>(1);
    let thread = threads::spawn_pinned(None, "short", Config::default(), |io| async move {
        io.clone().spawn(async move {
            let _ = receiver.recv().await;
        });
        io.sleep(1_000_000).await;
    })
    .expect("start a thread");
    thread.join().expect("no panic").expect("io_uring");
    assert!(sender.try_send(()).is_err(), "the task and its receiver are gone");
}

#[test]
fn a_dropped_request_keeps_its_memory() {
    use std::future::{Future, poll_fn};
    use std::task::Poll;
    let dir = disk_dir();
    let member = member_in(dir.path());
    let devices = Devices::new();
    let options = OpenOptions { route: Some(IoRoute::Ring), ..OpenOptions::default() };
    let device = devices.open(member.path(), options).expect("open");
    let runtime = runtime(&devices);
    let io = runtime.io();
    runtime.block_on(async {
        for _ in 0..5000 {
            let mut request = Box::pin(io.read(device, 0, Buf::zeroed(64 * BLOCK_BYTES)));
            poll_fn(|context| {
                assert!(request.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            drop(request);
        }
        io.sleep(1_000_000).await;
    });
    // The last ones may still be in flight: the runtime's end waits for them.
    let last = io.clone();
    io.spawn(async move {
        let _ = last.read(device, 0, Buf::zeroed(64 * BLOCK_BYTES)).await;
    });
    runtime.block_on(io.sleep(1));
}
