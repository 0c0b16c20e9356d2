//! Events between processes: they are taken once, can be silenced, and never make a thread wait.

use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use sinew_core::io::Io;
use sinew_uring::event::Event;
use sinew_uring::{Config, Runtime};

fn pair() -> (OwnedFd, UnixStream) {
    let (here, there) = UnixStream::pair().expect("a pair");
    (here.into(), there)
}

#[test]
fn events_are_taken_one_by_one_until_the_other_side_is_gone() {
    let runtime = Runtime::new(Config::default()).expect("a runtime");
    let io = runtime.io();
    let (here, mut there) = pair();
    let event = Event::from_fd(&io, here);
    runtime.block_on(async {
        there.write_all(&[1; 16]).expect("written");
        assert!(event.happened().await);
        assert!(event.happened().await);
        let io = io.clone();
        let late = there.try_clone().expect("a clone");
        io.spawn({
            let io = io.clone();
            async move {
                io.sleep(5_000_000).await;
                (&late).write_all(&[1; 8]).expect("written");
            }
        });
        assert!(event.happened().await);
        drop(there);
        assert!(!event.happened().await);
    });
}

#[test]
fn silence_ends_the_wait_and_later_ones() {
    let runtime = Runtime::new(Config::default()).expect("a runtime");
    let io = runtime.io();
    let (here, mut there) = pair();
    let event = Rc::new(Event::from_fd(&io, here));
    let ended = Rc::new(Cell::new(false));
    io.spawn({
        let (event, ended) = (Rc::clone(&event), Rc::clone(&ended));
        async move {
            assert!(!event.happened().await);
            ended.set(true);
        }
    });
    runtime.block_on(async {
        io.sleep(5_000_000).await;
        event.silence();
        while !ended.get() {
            io.sleep(1_000_000).await;
        }
        there.write_all(&[1; 8]).expect("written");
        assert!(!event.happened().await);
    });
}

#[test]
fn sending_does_not_wait_for_room() {
    let runtime = Runtime::new(Config::default()).expect("a runtime");
    let (here, mut there) = pair();
    let event = Event::from_fd(&runtime.io(), here);
    for _ in 0..1_000_000 {
        event.send();
    }
    let mut one = [0; 8];
    there.read_exact(&mut one).expect("read");
    assert_eq!(u64::from_ne_bytes(one), 1);
}
