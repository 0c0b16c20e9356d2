//! Output of the command. Unlike `println!`, it does not panic when the other end is gone: the reader of a pipe may leave
//! early, and a server must outlive the terminal it was started from.

use std::fmt::Arguments;
use std::io::{self, BufWriter, ErrorKind, Write};

use anyhow::{Context, Result};

/// Says a line on the standard output.
pub(crate) fn line(text: Arguments<'_>) {
    match io::stdout().write_fmt(format_args!("{text}\n")) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complaint(format_args!("cannot write the output: {error}"));
            std::process::exit(1)
        }
        _ => {}
    }
}

/// Writes much to the standard output, a buffer at a time, and stops when its reader is gone.
///
/// # Errors
/// When the output cannot be written for another reason.
pub(crate) fn stream(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut to = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match write(&mut to).and_then(|()| to.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.context("cannot write the output"),
    }
}

/// Says a line of trouble, or of what is going on, on the standard error.
pub(crate) fn complaint(text: Arguments<'_>) {
    // There is nowhere left to say that this failed.
    let _ = io::stderr().write_fmt(format_args!("sinew: {text}\n"));
}

/// Like `println!`.
macro_rules! say {
    ($($text:tt)*) => { $crate::out::line(format_args!($($text)*)) };
}

/// Like `eprintln!`, with the command's name in front.
macro_rules! complain {
    ($($text:tt)*) => { $crate::out::complaint(format_args!($($text)*)) };
}

pub(crate) use {complain, say};
