//! What this crate costs by itself: random 4 KiB reads of a file, and messages between two processes.
//!
//!     raw_io file PATH [depth=32] [seconds=2] [path=ring|inline] [spin_us=20] [write=no|yes]
//!     raw_io memory            the same on memory of this process
//!     raw_io talk [window=1] [seconds=2] [spin_us=20] [sockets=ring|inline]
//!
//! `file` creates PATH with 512 MiB if it is missing. `talk` starts a second process that echoes 64-byte messages over
//! a Unix socket; the first one is a plain blocking client that keeps `window` messages on their way. Processor time is
//! that of all threads, the kernel's workers for the ring included.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path as FilePath;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Io};
use sinew_core::transport::Part;
use sinew_uring::net::Stream;
use sinew_uring::{Config, Devices, IoRoute, OpenOptions, Runtime, UringIo, threads};

const FILE_BYTES: u64 = 512 << 20;
const MESSAGE_BYTES: usize = 64;

type Failure = Box<dyn Error>;

/// `name=value` arguments.
struct Options(BTreeMap<String, String>);

impl Options {
    fn parse(args: &[String]) -> Options {
        let pairs = args.iter().filter_map(|arg| arg.split_once('='));
        Options(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.0.get(name).map_or(default, |value| value.parse().expect("a number"))
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.0.get(name).is_some_and(|given| given == value)
    }

    fn config(&self, devices: &Devices) -> Config {
        Config {
            devices: devices.clone(),
            spin: Duration::from_micros(self.number("spin_us", 20)),
            sends_inline: self.is("sockets", "inline"),
            ..Config::default()
        }
    }
}

fn main() -> Result<(), Failure> {
    let args = env::args().skip(1).collect::<Vec<_>>();
    let options = Options::parse(&args);
    let words = args.iter().map(String::as_str).filter(|arg| !arg.contains('=')).collect::<Vec<_>>();
    match words[..] {
        ["file", path] => file(path, &options),
        ["memory"] => {
            let devices = Devices::new();
            let device = devices.memory(FILE_BYTES)?;
            transfers(&devices, device, &options)
        }
        ["talk"] => talk(&args, &options),
        ["echo", path] => echo(path, &options),
        _ => Err("see the head of this file for its arguments".into()),
    }
}

fn file(path: &str, options: &Options) -> Result<(), Failure> {
    if fs::metadata(path).map_or(0, |meta| meta.len()) < FILE_BYTES {
        let mut file = File::create(path)?;
        for _ in 0..FILE_BYTES >> 20 {
            file.write_all(&vec![0xa5; 1 << 20])?;
        }
        file.sync_all()?;
    }
    let path_option = match options.0.get("path").map(String::as_str) {
        Some("ring") => Some(IoRoute::Ring),
        Some("inline") => Some(IoRoute::Inline),
        _ => None,
    };
    let devices = Devices::new();
    let device = devices.open(path, OpenOptions { route: path_option, ..OpenOptions::default() })?;
    transfers(&devices, device, options)
}

/// Keeps `depth` transfers in flight for some seconds.
fn transfers(devices: &Devices, device: DeviceId, options: &Options) -> Result<(), Failure> {
    threads::pin_to(0)?;
    let runtime = Runtime::new(options.config(devices))?;
    let io = runtime.io();
    let (depth, seconds) = (options.number("depth", 32), options.number("seconds", 2));
    let writes = options.is("write", "yes");
    let (count, running) = (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(true)));
    let (start, cpu) = (Instant::now(), cpu_seconds()?);
    for _ in 0..depth {
        let (io2, count, running) = (io.clone(), Rc::clone(&count), Rc::clone(&running));
        io.spawn(async move {
            let mut buf = Buf::zeroed(BLOCK_BYTES);
            while running.get() {
                let offset = io2.random() % (FILE_BYTES / BLOCK_BYTES as u64) * BLOCK_BYTES as u64;
                buf = transfer(&io2, device, offset, buf, writes).await;
                count.set(count.get() + 1);
            }
        });
    }
    runtime.block_on(io.sleep(seconds * 1_000_000_000));
    let (took, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
    running.set(false);
    let count = count.get() as f64;
    println!(
        "{:?} depth {depth}: {:.0} k/s, {:.2} us each, {:.2} us of processor each",
        devices.route(device),
        count / took / 1e3,
        took * 1e6 / count * depth as f64,
        cpu * 1e6 / count
    );
    Ok(())
}

async fn transfer(io: &UringIo, device: DeviceId, offset: u64, buf: Buf, write: bool) -> Buf {
    if write {
        io.write(device, offset, Rc::new([buf.clone()])).await.expect("write");
        return buf;
    }
    let (buf, done) = io.read(device, offset, buf).await;
    done.expect("read");
    buf
}

/// The client of the conversation.
fn talk(args: &[String], options: &Options) -> Result<(), Failure> {
    let socket = env::temp_dir().join(format!("raw_io.{}", std::process::id()));
    let listener = UnixListener::bind(&socket)?;
    let mut server = Command::new(env::current_exe()?)
        .arg("echo")
        .arg(&socket)
        .args(args.iter().filter(|arg| arg.contains('=')))
        .stdout(Stdio::inherit())
        .spawn()?;
    threads::pin_to(0)?;
    let mut stream = listener.accept()?.0;
    fs::remove_file(&socket)?;

    let window = options.number("window", 1) as usize;
    let mut buf = vec![0; window * MESSAGE_BYTES];
    let (start, seconds) = (Instant::now(), Duration::from_secs(options.number("seconds", 2)));
    let mut bytes = 0;
    for message in buf.chunks(MESSAGE_BYTES) {
        stream.write_all(message)?;
    }
    let mut times = Vec::with_capacity(1 << 20);
    while start.elapsed() < seconds {
        let sent = Instant::now();
        let len = stream.read(&mut buf)?;
        bytes += len;
        for message in buf[..len].chunks(MESSAGE_BYTES) {
            stream.write_all(message)?;
        }
        times.push(sent.elapsed());
    }
    let rate = bytes as f64 / MESSAGE_BYTES as f64 / start.elapsed().as_secs_f64();
    times.sort_unstable();
    let (median, late) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!(
        "window {window}: {:.0} k messages/s; a turn of the client p50 {median:?}, p99 {late:?}",
        rate / 1e3
    );
    drop(stream);
    server.wait()?;
    Ok(())
}

/// The server of the conversation: the code under test.
fn echo(path: impl AsRef<FilePath>, options: &Options) -> Result<(), Failure> {
    threads::pin_to(1)?;
    let stream = std::os::unix::net::UnixStream::connect(path)?;
    let runtime = Runtime::new(options.config(&Devices::new()))?;
    let (start, cpu) = (Instant::now(), cpu_seconds()?);
    runtime.block_on(async {
        let stream = Stream::from_fd(&runtime.io(), stream.into());
        let mut buf = vec![0; 64 << 10];
        let mut parts = Vec::new();
        loop {
            let (back, got) = stream.recv(buf, 0).await;
            let Ok(len @ 1..) = got else { return };
            let mut reply = match parts.pop() {
                Some(Part::Bytes(old)) => old,
                _ => Vec::new(),
            };
            reply.clear();
            reply.extend_from_slice(&back[..len]);
            buf = back;
            parts.push(Part::Bytes(reply));
            let (back, sent) = stream.send(parts).await;
            if sent.is_err() {
                return;
            }
            parts = back;
        }
    });
    let share = (cpu_seconds()? - cpu) / start.elapsed().as_secs_f64() * 100.0;
    println!("server: {share:.0}% of a core");
    Ok(())
}

/// User and system time of this process, from fields 14 and 15 of its `stat`, in ticks of 10 ms.
fn cpu_seconds() -> Result<f64, Failure> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = fields.skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / 100.0)
}
