//! `sinew up`: the embedded default, one command to a served volume.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::commands::pool::{CreateArgs, create};
use crate::commands::serve::{Listen, serve};

/// Makes a small pool of file members in a directory, if there is none yet, and serves it until Ctrl-C.
#[derive(Args)]
pub(crate) struct UpArgs {
    /// The directory.
    #[arg(default_value = "sinew-data")]
    dir: PathBuf,
    /// Members of a new pool.
    #[arg(long, default_value_t = 4)]
    members: usize,
    /// Size of each member of a new pool; the files take space only as it is used.
    #[arg(long, default_value = "1G")]
    size: String,
    /// Protection of a new pool: mirror, mirror3, parity1 or parity2.
    #[arg(long, default_value = "parity1")]
    protection: String,
    /// Size of the volume `vol0` of a new pool.
    #[arg(long, default_value = "2G")]
    volume_size: String,
    /// Serve on this TCP address too, for example 127.0.0.1:10809.
    #[arg(long, value_name = "ADDR:PORT")]
    tcp: Option<std::net::SocketAddr>,
}

/// Runs the command.
pub(crate) fn run(args: UpArgs) -> Result<()> {
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot make {}", args.dir.display()))?;
    let dir = args.dir.canonicalize()?;
    let mut members = members_in(&dir)?;
    if members.is_empty() {
        members = (0..args.members).map(|i| dir.join(format!("member{i}"))).collect();
        let name = dir.file_name().map_or_else(|| "sinew".to_owned(), |n| n.to_string_lossy().into_owned());
        let create_args = CreateArgs {
            name,
            members: members.clone(),
            protection: args.protection,
            size: Some(args.size),
            volumes: vec![format!("vol0:{}", args.volume_size)],
            ..CreateArgs::default()
        };
        create(&create_args)?;
    }
    let (unix, control) = (dir.join("nbd.sock"), dir.join("control.sock"));
    if unix.as_os_str().len() > 100 {
        bail!("{} is too long for a socket's path; choose a directory nearer to the root", unix.display());
    }
    let listen = Listen { unix: Some(unix), control: Some(control), tcp: args.tcp, ..Listen::default() };
    serve(&members, listen, |open, listen| {
        let socket = listen.unix.as_ref().expect("set above").display();
        let names = open.control.catalog().names();
        println!("serving {} from {}", names.join(", "), dir.display());
        for name in &names {
            println!("  nbd+unix:///{name}?socket={socket}");
            if let Some(address) = listen.tcp {
                println!("  nbd://{address}/{name}");
            }
        }
        if let Some(name) = names.first() {
            println!("try, in another terminal:");
            println!("  nbdinfo 'nbd+unix:///{name}?socket={socket}'");
            println!("  qemu-img info 'nbd+unix:///{name}?socket={socket}'");
            println!("  sinew pool status --control {}", dir.join("control.sock").display());
        }
        println!("Ctrl-C stops");
    })
}

/// The member files of a directory, in order.
fn members_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut members: Vec<PathBuf> = std::fs::read_dir(dir)?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("member"))
        .map(|entry| entry.path())
        .collect();
    members.sort();
    Ok(members)
}
