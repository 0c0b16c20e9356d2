//! Members by their names: files, block devices, and directories of member files.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sinew_core::io::DeviceId;
use sinew_engine::pool::{self, Candidate};
use sinew_format::codec::DecodeError;
use sinew_format::model::array_geometry::Access;
use sinew_format::superblock::{SLOT_BYTES, SLOT_OFFSETS, Superblock};
use sinew_uring::{Devices, OpenError, OpenOptions};

use super::holders;
use super::host::{self, Kind};
use super::in_use;

/// The only directory in /dev that is for files: a file system in memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// The places that are searched for members if none are named. The names in the first stay the same over restarts; the
/// second has devices that have no such name.
pub(crate) const PLACES: [&str; 2] = ["/dev/disk/by-id", "/dev"];

/// Those of [`PLACES`] that this machine has.
pub(crate) fn places_of_devices() -> Vec<PathBuf> {
    PLACES.iter().map(PathBuf::from).filter(|place| place.is_dir()).collect()
}

/// Members that could be opened, and a line for each that could not.
pub(crate) struct Available {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) problems: Vec<String>,
}

/// Opens everything named, for this process alone. A missing member is noted and left out: a pool opens without it
/// while its redundancy lasts. Members in use are tried again for `patience`, and for
/// half a second in any case: at a boot, udev has a device open while it looks at what is on it.
///
/// # Errors
/// When something stays in use elsewhere (the pool is then served already), or nothing can be opened at all.
pub(crate) fn open_available(
    devices: &Devices,
    named: &[PathBuf],
    kind: Kind,
    patience: Duration,
) -> Result<Available> {
    let until = Instant::now() + patience;
    let (mut candidates, mut problems) = (Vec::new(), Vec::new());
    let (paths, read_only) = match kind {
        Kind::Pool => (expand(named)?, false),
        Kind::ReadOnly => (expand(named)?, true),
        Kind::Md(options) => (each(named)?, options.access == Access::ReadOnly),
    };
    let options = OpenOptions { read_only, ..OpenOptions::default() };
    for path in paths {
        match open(devices, &path, options, until) {
            Ok(device) => candidates.push(Candidate { device, path: name(&path) }),
            Err(OpenError::InUse(path)) => return Err(InUse::new(path).into()),
            Err(error) => problems.push(error.to_string()),
        }
    }
    if candidates.is_empty() {
        let named: Vec<_> = named.iter().map(|p| p.display().to_string()).collect();
        let found =
            if problems.is_empty() { "no Sinew member there".to_owned() } else { problems.join("\n  ") };
        bail!("nothing to open in {}: {found}", named.join(", "));
    }
    Ok(Available { candidates, problems })
}

/// Opens exactly what is named, for this process alone.
///
/// # Errors
/// When one of them cannot be opened.
pub(crate) fn open_all(devices: &Devices, named: &[PathBuf]) -> Result<Vec<Candidate>> {
    let open = |path: &PathBuf| match open(devices, path, OpenOptions::default(), Instant::now()) {
        Ok(device) => Ok(Candidate { device, path: name(path) }),
        Err(OpenError::InUse(path)) => Err(InUse::new(path).into()),
        Err(error) => Err(error.into()),
    };
    each(named)?.iter().map(open).collect()
}

/// A member that cannot be opened exclusively, and its holders in words, as far as this process may see them.
#[derive(Debug)]
pub(crate) struct InUse {
    path: PathBuf,
    holders: Vec<String>,
}

impl InUse {
    pub(crate) fn new(path: PathBuf) -> InUse {
        InUse { holders: holders::of(&path), path }
    }
}

impl Display for InUse {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} is in use: ", self.path.display())?;
        match self.holders.as_slice() {
            [] => f.write_str("another server has it open, or it is mounted or part of an array"),
            holders => f.write_str(&holders.join(", ")),
        }
    }
}

impl Error for InUse {}

/// Opens one for this process alone. One in use is tried again until this time, and for a moment in any case: a process that reads
/// its superblock does not have the member for longer.
fn open(devices: &Devices, path: &Path, options: OpenOptions, until: Instant) -> Result<DeviceId, OpenError> {
    let attempt = || devices.open(path, options);
    in_use::retry(until, attempt, |opened| matches!(opened, Err(OpenError::InUse(_))))
}

/// Makes the members that are not there, as files of this size; none if one cannot be made. Gives those it made.
///
/// # Errors
/// When one cannot be made, or is missing and no size was given.
pub(crate) fn make_files(members: &[PathBuf], size: Option<u64>) -> Result<Vec<PathBuf>> {
    let missing: Vec<&PathBuf> = members.iter().filter(|path| !path.exists()).collect();
    let Some(bytes) = size else {
        match missing.as_slice() {
            [] => return Ok(Vec::new()),
            [path, ..] => {
                bail!("{} does not exist; say --size SIZE to make files of that size", path.display())
            }
        }
    };
    let mut made: Vec<PathBuf> = Vec::new();
    for path in missing {
        if let Err(error) = make_file(path, bytes, &mut made) {
            for path in made {
                let _ = std::fs::remove_file(path);
            }
            return Err(error);
        }
    }
    Ok(made)
}

/// Makes one member file, for its owner alone, and adds it to those made.
///
/// # Errors
/// When it is there already, cannot be made, or would lie among the devices: a mistyped name of a device is no file.
pub(crate) fn make_file(path: &Path, bytes: u64, made: &mut Vec<PathBuf>) -> Result<()> {
    let parent = absolute(path)?.parent().map(Path::to_owned).unwrap_or_default();
    let parent = parent.canonicalize().unwrap_or(parent);
    if parent.starts_with("/dev") && !parent.starts_with(SHARED_MEMORY) {
        bail!(
            "there is no device {}; files are not made in /dev: name a device that is there, or a file elsewhere",
            path.display()
        );
    }
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    if file.is_ok() {
        made.push(path.to_owned());
    }
    file.and_then(|file| file.set_len(bytes)).with_context(|| format!("cannot make {}", path.display()))
}

/// The paths named, each once.
///
/// # Errors
/// When a path is not usable, or names the same file as another.
pub(crate) fn each(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let paths = named.iter().map(|path| absolute(path)).collect::<Result<Vec<_>>>()?;
    refuse_twice(&paths)?;
    Ok(paths)
}

/// The paths named, directories replaced by the members in them: files, devices, and links to either.
///
/// # Errors
/// When a directory cannot be listed, or a file is named twice.
pub(crate) fn expand(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    // Directories of links, such as /dev/disk/by-id, name each device several times.
    let mut seen = BTreeSet::new();
    for path in named {
        let path = absolute(path)?;
        if path.is_dir() {
            let entries =
                std::fs::read_dir(&path).with_context(|| format!("cannot list {}", path.display()))?;
            let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            inside.retain(|path| is_member(path));
            inside.sort();
            inside.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
            paths.extend(inside);
        } else {
            paths.push(path);
        }
    }
    refuse_twice(&paths)?;
    Ok(paths)
}

/// A superblock, read without opening the member for use.
pub(crate) struct Seen {
    pub(crate) superblock: Superblock,
    /// A server has the member.
    pub(crate) in_use: bool,
}

/// Reads a superblock, also that of a member in use.
///
/// # Errors
/// When the file cannot be opened or has no superblock.
pub(crate) fn superblock(devices: &Devices, path: &Path) -> Result<Seen> {
    let mut options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let mut in_use = false;
    let device = match devices.open(path, options) {
        Err(OpenError::InUse(_)) => {
            in_use = true;
            options.exclusive = false;
            devices.open(path, options)?
        }
        opened => opened?,
    };
    let read = host::run_alone(devices, async |io| pool::read_superblock(&io, device).await)?;
    devices.close(device);
    Ok(Seen { superblock: read?, in_use })
}

/// The path from the root, so that a server can use it.
///
/// # Errors
/// When it is not a usable path.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} is not a usable path", path.display()))
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

/// Refuses a list that names something twice. Opening it twice would fail too, but with a message about another server.
///
/// # Errors
/// When two paths name the same file.
pub(crate) fn refuse_twice(paths: &[PathBuf]) -> Result<()> {
    let real: Vec<PathBuf> = paths.iter().map(|p| p.canonicalize().unwrap_or_else(|_| p.clone())).collect();
    for (i, path) in real.iter().enumerate() {
        if let Some(first) = real[..i].iter().position(|other| other == path) {
            bail!(
                "{} and {} are the same; name each member once",
                paths[first].display(),
                paths[i].display()
            );
        }
    }
    Ok(())
}

/// Whether a regular file or a block device holds a superblock of any version, intact or not.
fn is_member(path: &Path) -> bool {
    slots(path).iter().any(|slot| *slot != Err(DecodeError::Foreign))
}

/// The newest superblock of a file or block device, read as any other program would: also while a server has it, and where
/// io_uring is not available.
pub(crate) fn peek(path: &Path) -> Option<Superblock> {
    slots(path).into_iter().flatten().max_by_key(|superblock| superblock.config.generation)
}

/// The superblock slots that can be read.
fn slots(path: &Path) -> Vec<Result<Superblock, DecodeError>> {
    if !std::fs::metadata(path).is_ok_and(|meta| meta.is_file() || meta.file_type().is_block_device()) {
        return Vec::new();
    }
    let Ok(file) = File::open(path) else { return Vec::new() };
    let slot = |&offset: &u64| {
        let mut slot = vec![0; SLOT_BYTES];
        file.read_exact_at(&mut slot, offset).ok().map(|()| Superblock::decode(&slot))
    };
    SLOT_OFFSETS.iter().filter_map(slot).collect()
}
